"""Permissions of plugins: capabilities and access, declared by the author ∩ granted by the operator."""
