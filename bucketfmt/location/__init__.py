"""Where keys live: which index a table has, and the proof of it."""
