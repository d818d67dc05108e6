"""Requests to an object store, counted, and their time."""
