"""Parses text that people write: YAML, JSON with positions, patterns, dates, encodings. The result is plain values."""
