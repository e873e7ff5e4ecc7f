"""Level 0: the plugins that serve the target: what they say before they are loaded, and how they load."""
