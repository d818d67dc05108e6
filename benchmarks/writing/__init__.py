"""What writes and resizes tables, timed beside its peers, and growth."""
