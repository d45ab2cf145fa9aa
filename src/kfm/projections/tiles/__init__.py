"""Vector tiles of the places of a version. Pure."""
