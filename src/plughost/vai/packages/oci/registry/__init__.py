"""OCI registries over HTTP: authorization, retries, resumable downloads and uploads."""
