"""How keys map to buckets: rings, partition rules, and the settings that say which."""
