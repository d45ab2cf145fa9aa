"""Objects in a bucket: needs the extra `bucket`."""
