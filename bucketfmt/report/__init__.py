"""A report on a table as one page of HTML: what the table is, its health, and pictures of it."""
