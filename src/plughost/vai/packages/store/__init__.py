"""The package store: installed releases on disk, by digest, and their integrity."""
