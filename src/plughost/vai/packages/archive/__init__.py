"""Package archives: a canonical tar, written from a source tree and unpacked again."""
