"""Data blocks and base files to Arrow and back, and the merge rules. Pure."""
