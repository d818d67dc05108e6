"""The metadata table against the table: findings of the family M."""
