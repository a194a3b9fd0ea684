"""The program that starts plugin processes, and what it reports back."""
