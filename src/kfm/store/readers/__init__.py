"""Readers of what the state keeps apart: a database that others write to, and compacted journals."""
