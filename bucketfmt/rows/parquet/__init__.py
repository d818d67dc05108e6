"""Base files: parquet pages and footers, and what Hudi keeps in them."""
