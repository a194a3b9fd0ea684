"""Trust in packages: keys, signatures and trusted publishers."""
