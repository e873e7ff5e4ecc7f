"""The plugin host: finding, checking and loading backends, without letting one harm another."""
