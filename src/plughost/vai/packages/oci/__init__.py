"""OCI content, wherever it is: layout folders, layout tars, registries. Knows nothing of plugins."""
