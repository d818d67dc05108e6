"""Long runs: damage of every bit, coverage-guided fuzzing, peers on the same damage.

`make soak` runs everything; `python -m soak report` writes the tables of docs/reliability.md.
"""
