"""Compacts a coding chain: what matters stays as it is, the rest is woven into blocks with lineage."""
