"""Bytes and text to values and back. Pure: no I/O, clock, randomness or logging."""
