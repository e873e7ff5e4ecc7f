"""Level 2: every operation, for every dtype and kind of shape, forward and gradient."""
