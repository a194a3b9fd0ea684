"""Values every layer may use: errors, events, the clock, capabilities, located config."""
