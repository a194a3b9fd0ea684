"""Memory and process limits of a whole process tree: cgroups, or the host's own meter."""
