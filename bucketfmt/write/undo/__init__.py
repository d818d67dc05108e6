"""Taking back: rollback, recovery, savepoints, restore."""
