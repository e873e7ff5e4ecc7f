"""The ACME K1 as a device of tiny. Read in this order: plugin, renderer, ops, machine, runtime."""
