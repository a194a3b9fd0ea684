"""What a confined plugin was denied, and which grant would allow it."""
