"""How fast bucketfmt is beside its peers, on the same data in one run: `python -m benchmarks`."""
