"""Conformance tests for plugins: each contract has axes, each a promise that is tested against a real
process."""
