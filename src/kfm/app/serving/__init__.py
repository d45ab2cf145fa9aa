"""What may be shown of published data, decided whenever it is shown."""
