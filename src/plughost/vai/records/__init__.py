"""The record of every invocation, and how long records are kept."""
