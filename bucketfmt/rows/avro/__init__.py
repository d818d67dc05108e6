"""Avro data blocks to Arrow and back."""
