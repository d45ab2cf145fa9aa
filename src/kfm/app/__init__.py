"""What every door does, once: opens what was chosen, works, receives, watches, looks, exports, diagnoses."""
