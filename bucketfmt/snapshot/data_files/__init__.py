"""The data files of a table and the slices that they form."""
