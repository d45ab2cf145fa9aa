"""The queue interface. Its loop does not exist yet; `kfm run` runs the same work today."""
