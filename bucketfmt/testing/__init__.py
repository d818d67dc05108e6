"""A kit for testing code that uses tables: stores that record and fail."""
