"""The commands of `python -m dpkit`, one file per kind of question."""
