"""Redaction: secrets found in text, however it spells them, and replaced."""
