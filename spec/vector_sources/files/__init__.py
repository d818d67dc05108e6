"""Vectors of the files of a table."""
