"""plughost itself, in a process of its own like its peers."""
