"""procrastinate: a task queue on PostgreSQL."""
