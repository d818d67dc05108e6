"""Damaged tables: what is damaged, how, and how readers answer."""
