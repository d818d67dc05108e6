"""Record indexes: which file group has a key, and which takes a new one."""
