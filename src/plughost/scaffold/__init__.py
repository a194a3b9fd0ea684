"""Plugins to start from: templates by contract and language."""
