"""Record keys: their text, their hashes, and the bloom filters that hold them."""
