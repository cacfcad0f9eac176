"""Tables and leaderboards, built from stored results alone."""
