"""Benchmark data: the table of data sets, the places that have them, and what they must hold."""
