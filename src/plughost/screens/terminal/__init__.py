"""A plugin's screen in this terminal."""
