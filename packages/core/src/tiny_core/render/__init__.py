"""What a renderer and a compiler are: abstract classes, declared capabilities, and the signature of a
program."""
