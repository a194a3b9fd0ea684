"""The command line interface: commands parse their arguments, call the library and print the result."""
