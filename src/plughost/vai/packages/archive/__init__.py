"""The archive of a package: canonical tar, source tree, ignore rules, legal paths and limits."""
