"""Commands that run a host, show what it does, and control it."""
