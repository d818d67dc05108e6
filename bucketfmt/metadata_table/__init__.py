"""The metadata table as it is read: which of its records count, and what they add up to."""
