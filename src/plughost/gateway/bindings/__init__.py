"""Bindings of the gateway: records with revisions, validation, rollout between versions, live look-ups."""
