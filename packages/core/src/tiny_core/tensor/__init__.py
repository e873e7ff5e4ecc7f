"""Tensors: lazy arrays on any device, with differentiation."""
