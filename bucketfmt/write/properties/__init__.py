"""Changes of hoodie.properties: a new table, its index, its metadata table."""
