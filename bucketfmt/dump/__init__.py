"""Annotates a file of a table field by field: offset, length, value, rule of the spec. Pure."""
