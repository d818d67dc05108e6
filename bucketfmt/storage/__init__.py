"""All I/O of the package: a small `Store` protocol, over local files or any fsspec URL."""
