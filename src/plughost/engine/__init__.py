"""One live instance of a plugin: its process, its channel, its peer, its supervisor. Names no contract."""
