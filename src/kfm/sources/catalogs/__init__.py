"""Readers of other publishers' catalogs: STAC, DCAT and folder listings."""
