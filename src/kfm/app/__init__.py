"""The capabilities that every interface offers: run, schedule, publish, protect, explain, verify and maintain
datasets."""
