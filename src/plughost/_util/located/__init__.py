"""Configuration documents that know the line of every key: TOML and YAML, checked whole."""
