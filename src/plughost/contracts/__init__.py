"""The plugin contracts: one package each, the base types for all of them, and the registry that finds
them."""
