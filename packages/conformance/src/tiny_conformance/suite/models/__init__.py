"""Level 4: small models, trained beside the same mathematics in numpy."""
