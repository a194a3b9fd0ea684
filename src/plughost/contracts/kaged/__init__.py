"""The contract kaged."""
