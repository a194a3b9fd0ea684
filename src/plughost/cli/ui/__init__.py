"""The output of the command line: the only code that writes to stdout and stderr, tables, progress bars."""
