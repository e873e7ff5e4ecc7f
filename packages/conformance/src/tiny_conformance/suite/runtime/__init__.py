"""Level 1: memory, copies, queues and errors of the device, through the contract of `tiny_core.api`."""
