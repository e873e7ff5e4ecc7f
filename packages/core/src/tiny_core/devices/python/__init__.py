"""The PYTHON device: runs linear kernels node by node with numpy, and so defines what every op means."""
