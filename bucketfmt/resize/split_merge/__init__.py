"""Buckets of rings and directories are split where they are too large, and merged where small."""
