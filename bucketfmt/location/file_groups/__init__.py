"""Several file groups in a bucket: which of them has a key, and which takes a new one."""
