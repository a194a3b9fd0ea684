"""The contract rune."""
