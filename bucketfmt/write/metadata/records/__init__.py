"""What a commit changes in each partition of the metadata table."""
