"""From a command to every file it needs to run: shebang, interpreter, loader, shared libraries."""
