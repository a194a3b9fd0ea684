"""Commands for vai packages and the invocation of their exports."""
