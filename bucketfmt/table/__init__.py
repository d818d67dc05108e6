"""A table as it is read: scans, lookups, and what can be asked about it."""
