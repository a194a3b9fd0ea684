"""Helpers that know nothing of plugins: text, files, threads, SQLite, JSON Schema, redaction of secrets."""
