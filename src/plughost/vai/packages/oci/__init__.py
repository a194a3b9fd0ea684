"""OCI content in layout folders, layout tars and registries. Independent of plugins."""
