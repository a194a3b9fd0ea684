"""The contracts plugins are written against: one folder each, and the registry that finds them."""
