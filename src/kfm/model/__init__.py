"""The records, their canonical bytes, and the ports. Nothing here does I/O or reads a clock."""
