"""The records of the metadata table: their keys, the file group of a key, and what they say."""
