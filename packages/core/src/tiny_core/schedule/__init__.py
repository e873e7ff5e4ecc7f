"""Scheduling: a tensor graph in, a linear list of kernels and copies out."""
