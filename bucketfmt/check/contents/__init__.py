"""What is inside data files: footers, pages, blocks, rows."""
