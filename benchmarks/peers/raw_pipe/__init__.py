"""A pipe and nothing else, in a process of its own."""
