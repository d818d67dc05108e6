"""Conditions on rows: as users write them, as Arrow evaluates them, and what they exclude."""
