"""Instants, the two timeline layouts, and history."""
