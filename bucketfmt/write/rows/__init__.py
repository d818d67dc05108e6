"""From a caller's rows to files."""
