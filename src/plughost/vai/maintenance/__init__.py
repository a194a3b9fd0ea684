"""Maintenance of vai's database: backup and restore of a state folder, export and import."""
