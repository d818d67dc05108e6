"""What runs on executors: tasks, the one exchange, errors on their way back."""
