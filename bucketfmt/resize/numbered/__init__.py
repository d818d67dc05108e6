"""Other numbers of buckets: rehash and rescale."""
