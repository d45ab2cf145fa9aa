# Made by `make schemas` from src/kfm/contract/labels.py, the one place where these words are written.
package kfm.words

# How closed each is.
rank := {"public": 0, "generalised": 1, "restricted": 2, "closed": 3}

usable := {"public", "generalised", "restricted"}
