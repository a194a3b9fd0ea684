"""Plugin scaffolding: creates new plugins from templates."""
