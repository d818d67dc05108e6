"""HFile: sorted keys and values in compressed blocks, as Hudi's metadata table stores records."""
