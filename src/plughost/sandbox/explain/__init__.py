"""Why a plugin may do what it may: `plughost explain`."""
