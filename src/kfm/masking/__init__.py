"""Turns protected records into public ones, and scans everything that is published for protected values."""
