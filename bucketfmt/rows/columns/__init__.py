"""Columns: their types, their casts, and the columns that Hudi adds."""
