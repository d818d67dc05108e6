"""The metadata table against the table: M001 to M004."""
