"""The contract vai."""
