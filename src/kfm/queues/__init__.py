"""What wakes workers: a broker, or nothing. The state is the queue; a message that is lost, doubled or late changes
nothing."""
