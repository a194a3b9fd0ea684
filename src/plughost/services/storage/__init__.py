"""Durable keys and values for plugins: one SQLite file each."""
