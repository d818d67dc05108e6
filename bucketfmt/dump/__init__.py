"""Files of a table annotated field by field: offset, length, value, and the spec's rule. Pure."""
