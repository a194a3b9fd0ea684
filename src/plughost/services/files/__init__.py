"""Files for plugins to read, beneath the folders that were granted."""
