"""Differentiation of tensor graphs."""
