"""Whether the files that commits and plans name are there, and which others are."""
