"""The ACME as a device of tiny. Read in this order: plugin.toml, plugin, renderer, ops, machine, runtime."""
