"""Works on a table that die, fail or meet, in one process, and what a table must be after them."""
