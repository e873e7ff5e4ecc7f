"""Neural-network modules, optimizers, state files and data sets, written on the public Tensor alone."""
