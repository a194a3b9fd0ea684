"""What holds a confined plugin, and the one way out that it has."""
