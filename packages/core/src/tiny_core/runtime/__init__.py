"""Devices as core sees them: memory, programs, queues. Backends implement `Runtime`; the engine uses
`Device`."""
