"""Checks a source against its data contract, before anything is planned from it."""
