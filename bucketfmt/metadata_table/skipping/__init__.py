"""Files that the metadata table lets a read leave out."""
