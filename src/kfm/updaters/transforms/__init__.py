"""Updaters that are described in the configuration and have no code of their own."""
