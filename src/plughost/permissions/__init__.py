"""What a plugin may do: declared by its author, granted by its operator, and the intersection of both."""
