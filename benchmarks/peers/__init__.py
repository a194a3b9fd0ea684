"""Programs that run in the peers' environment, not in ours."""
