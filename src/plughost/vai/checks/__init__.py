"""Checks against JSON Schemas that may take long, in worker processes that can be killed."""
