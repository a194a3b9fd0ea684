"""The terminal UI: plugin screens in this terminal, with Textual."""
