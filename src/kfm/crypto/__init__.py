"""Encryption, signed approvals, the Merkle tree of the ledger with its checkpoints, and signed envelopes.

The modules are pure: the caller passes keys, times and salts; no file, clock or randomness is used here.
`kfm.secret_references` reads keys that are given by reference. The only library is `cryptography`, imported on use;
without it everything is denied.
"""
