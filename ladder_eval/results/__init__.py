"""Frozen records, the statistics of differences, and what a run leaves on disk."""
