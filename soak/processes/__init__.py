"""Threads and processes that share a table, of which some are stopped or killed."""
