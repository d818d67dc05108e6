"""The files of one file group: which of them takes rows, how it is written and put."""
