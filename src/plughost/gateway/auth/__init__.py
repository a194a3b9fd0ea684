"""Who asks, and what they may do: principals, scopes, API keys."""
