"""Networks: layers, optimizers, saved weights, data sets.

A layer is a callable object whose tensors are attributes; a network is any object, list or dict of them.
There is no base class: `nn.state` finds tensors by looking.

>>> from tiny_core import Tensor, nn
>>> layers = [nn.Linear(4, 8), Tensor.relu, nn.Linear(8, 2)]
>>> Tensor.ones(3, 4).sequential(layers).shape
(3, 2)
"""

from tiny_core.nn import datasets as datasets
from tiny_core.nn import optim as optim
from tiny_core.nn import state as state
from tiny_core.nn.layers import BatchNorm as BatchNorm
from tiny_core.nn.layers import BatchNorm2d as BatchNorm2d
from tiny_core.nn.layers import BatchNorm3d as BatchNorm3d
from tiny_core.nn.layers import Conv1d as Conv1d
from tiny_core.nn.layers import Conv2d as Conv2d
from tiny_core.nn.layers import LayerNorm as LayerNorm
from tiny_core.nn.layers import Linear as Linear
