"""Screens of ainb plugins as people see them: in a terminal, or as a picture."""
