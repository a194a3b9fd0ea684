"""HTTP requests on behalf of plugins, to the hosts that were granted."""
