"""The file slices of a table at an instant."""
