"""Names and paths of files and folders, and the instants in them."""
