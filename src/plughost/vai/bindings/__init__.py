"""Bindings: which export serves whom, with which permissions, configuration and secrets."""
