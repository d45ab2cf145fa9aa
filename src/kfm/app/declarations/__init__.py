"""Adds a dataset to kfm.yml from a file, and removes it."""
