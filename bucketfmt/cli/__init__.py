"""The command line: arguments in, the public API, text or JSON out. No logic of its own."""
