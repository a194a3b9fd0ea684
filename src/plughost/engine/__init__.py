"""The engine runs one instance of a plugin: its process, channel, peer and supervisor. It knows no
contract."""
