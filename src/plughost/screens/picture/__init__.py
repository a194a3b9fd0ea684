"""One frame of a plugin's screen as SVG or PNG."""
