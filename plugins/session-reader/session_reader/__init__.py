"""Session logs of coding agents, read as usage."""
