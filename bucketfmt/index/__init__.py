"""Which file group holds a key. Pure."""
