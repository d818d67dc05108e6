"""Which of several records with one key stays."""
