"""Reading what others say they have: STAC, DCAT and listings of folders."""
