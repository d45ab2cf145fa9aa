"""What a server says, to a program elsewhere that reads from it."""
