"""The launcher: the program that starts plugin processes and ends their descendants, and its report."""
