"""Repair: files that a table keeps beside its rows, made again from the rows."""
