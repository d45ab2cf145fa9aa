"""What is proved with keys: sealed bytes, signed acts, the ledger's tree and its checkpoints, signed envelopes.

Pure: no file, no clock, no chance. Keys, times and salts are handed in; where a key is asked for by reference,
`kfm.secret_references` reads it. The one library is `cryptography`, imported when it is needed: without it, all is
denied.
"""
