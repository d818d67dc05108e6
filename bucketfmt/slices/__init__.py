"""The rows of one file slice: base file and log merged."""
