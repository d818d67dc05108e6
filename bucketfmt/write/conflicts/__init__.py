"""What other writers did since a commit began, and whether the commit stands beside it."""
