"""Renders one frame of a plugin's screen to SVG or PNG."""
