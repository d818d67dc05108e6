"""Files beside the rows, made again from the rows."""
