"""Writing: new tables, and writes to them. Decisions are planned before a byte is written."""
