"""Acme's development kit: a harness, a tool, a hook and a compactor in one package."""
