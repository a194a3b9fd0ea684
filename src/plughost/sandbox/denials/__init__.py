"""Denials: what a sandbox refused a plugin, and which grant would allow it."""
