"""Packages: what is packed, signed, moved and kept before any of it runs."""
