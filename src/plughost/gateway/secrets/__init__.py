"""Secrets of tenants: encrypted in the database, mapped by bindings, revealed to invocations."""
