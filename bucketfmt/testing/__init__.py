"""Tools for testing code that uses tables: a model, faults, and stores that record and fail."""
