"""Resolves a command to every file that it needs to run: shebang, interpreter, dynamic loader, shared
libraries."""
