"""Table services: compaction, cleaning, archiving."""
