"""The servers of an installation that has some, on this machine and for one person: `make up-local`."""
