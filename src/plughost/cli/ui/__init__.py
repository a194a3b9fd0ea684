"""What the command line shows: the only way to stdout and stderr, tables, progress."""
