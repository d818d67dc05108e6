"""Log files: blocks, the deletes and the positions in them."""
