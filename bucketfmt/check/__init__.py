"""Checks a table as fsck checks a file system: reads, never writes."""
