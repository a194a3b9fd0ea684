"""vai packages and invocations on one machine."""
