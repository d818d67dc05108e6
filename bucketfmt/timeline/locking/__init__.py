"""Locks and heartbeats: who may write, and who is alive."""
