"""What many formats are built of: bytes with a cursor, JSON text, Avro containers, Kryo."""
