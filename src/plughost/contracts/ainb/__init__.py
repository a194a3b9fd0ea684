"""The contract ainb."""
