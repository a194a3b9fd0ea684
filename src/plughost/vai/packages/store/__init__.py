"""Installed packages on disk, by digest, and whether they are still what was signed."""
