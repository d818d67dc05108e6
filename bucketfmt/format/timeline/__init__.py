"""The content of timeline files, active and archived."""
