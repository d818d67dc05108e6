"""What describes a table as a whole: hoodie.properties, column ids, the lock file."""
