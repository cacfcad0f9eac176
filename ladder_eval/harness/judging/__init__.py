"""Judging outputs against a reference's, as AlpacaEval 2 does."""
