"""Code generation: a kernel in, an ordered linear list that a renderer can print out."""
