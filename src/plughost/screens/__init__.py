"""Screens of ainb plugins: a pure renderer from cells to spans, and on it the terminal UI and pictures."""
