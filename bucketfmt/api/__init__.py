"""What users call, put together from the rooms below: `open`, `create` and `Table`."""
