"""The metadata table, its HFiles and the record-level index, timed beside Hudi."""
