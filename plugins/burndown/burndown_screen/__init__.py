"""Usage of coding agents on a screen and on the command line."""
