"""What the host does for plugins that ask for it, each thing behind its capability."""
