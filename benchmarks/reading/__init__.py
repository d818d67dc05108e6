"""What reads tables, timed and measured beside its peers."""
