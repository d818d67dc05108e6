"""One commit next to other writers: begun, checked for conflicts, published."""
