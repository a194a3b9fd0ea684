"""Runs the command line: `python -m plughost.cli`."""

from plughost.cli.main import main

main()
