"""Level P: how fast a few things are. Figures for the report; only crashes fail."""
