"""The routes of the governed application, in groups: what each takes, and which record it answers with."""
