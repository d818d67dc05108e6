"""Vectors of commits, and of what readers see of them."""
