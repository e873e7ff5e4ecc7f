"""The CPU device: a C renderer for a system compiler, a loader of relocatable objects, worker threads, a
runtime."""
