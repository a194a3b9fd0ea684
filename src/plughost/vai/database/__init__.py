"""The database of vai, on SQLite or PostgreSQL: connections, named statements, migrations."""
