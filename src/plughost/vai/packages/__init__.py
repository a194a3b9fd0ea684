"""Packages: pack, sign, verify, push, pull, install and diff, before any of their code runs."""
