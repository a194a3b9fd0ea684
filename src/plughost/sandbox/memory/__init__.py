"""Limits of a whole process tree: control groups for memory and processes, or the host's own memory meter."""
