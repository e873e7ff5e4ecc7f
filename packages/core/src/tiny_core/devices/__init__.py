"""Built-in backends. They import tiny_core.api only, as any plugin must."""
