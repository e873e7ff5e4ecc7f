"""The intermediate representation: one node class from tensors down to the linear list a renderer prints."""
