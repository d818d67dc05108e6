"""Long runs of what `make test` samples: damage, faults, meetings, kills, and their figures.

`make soak` runs everything; `python -m soak report` writes the tables of docs/reliability.md.
"""
