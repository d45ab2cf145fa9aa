"""The nouns, their canonical bytes, and the ports: no I/O, no clock."""
