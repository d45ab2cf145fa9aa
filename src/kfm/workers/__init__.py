"""The queue's door. Its loop is not there yet; what it will run, `kfm run` runs today."""
