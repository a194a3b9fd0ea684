"""Whose packages are trusted: keys, signatures, publishers."""
