"""Optimizers: what changes parameters by their gradients, and the schedule of a learning rate.

In: parameters whose `grad` a `backward` has filled. Out: assignments to them and to the optimizer's state,
all lazy until `step` realizes them together. Everything that changes from step to step (learning rate,
moments, bias corrections) is a tensor that is assigned to, so a step inside `jit` replays correctly. The
updates of one parameter and of its moments are element-wise over one shape, from the same values: they make
one kernel.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from tiny_core import dtypes
from tiny_core.errors import DeviceError, DTypeError, GradientError, SettingError
from tiny_core.tensor.tensor import Tensor


class Optimizer(ABC):
    """Base of optimizers.

    Args:
        params: tensors to change, of float dtypes, on one device. Those that did not ask for gradients do
            from now on.
        lr: learning rate.

    Attributes:
        params: the parameters.
        lr: the learning rate, a float32 scalar tensor: `optimizer.lr.assign(0.1)` changes it.

    Raises:
        GradientError: there are no parameters, or one is given twice.
        DTypeError: one is no tensor, or not of floats.
        DeviceError: they are on different devices.
        SettingError: a number is out of its range.
    """

    def __init__(self, params: Sequence[Tensor], lr: float) -> None:
        self.params = _checked(params)
        _need(lr >= 0, "lr", lr, "it is not negative")
        self.lr = self._scalar(lr)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for param in self.params:
            param.grad = None

    def step(self) -> None:
        """Change the parameters, and realize them and the state; raises GradientError if one has no
        gradient."""
        changed = self.schedule_step()
        changed[0].realize(*changed[1:])

    def schedule_step(self) -> list[Tensor]:
        """Assign to parameters and state; returns them, for the caller to realize (with a loss, say).

        Raises:
            GradientError: a parameter has no gradient.
        """
        grads = []
        for i, param in enumerate(self.params):
            if param.grad is None:
                raise GradientError(
                    f"parameter {i} of {type(self).__name__}, of shape {param.shape}, has no gradient",
                    "call backward() of a loss that depends on it first, or leave it out",
                )
            grads.append(param.grad.cast(_state_dtype(param)))
        return [*self.params, *self._update(grads)]

    @abstractmethod
    def _update(self, grads: list[Tensor]) -> list[Tensor]:
        """Assign to the parameters; returns the state that was assigned to."""

    def _scalar(self, value: float) -> Tensor:
        """A number that steps may change."""
        return Tensor(value, self.params[0].device, dtypes.float32)

    def _zeros(self) -> list[Tensor]:
        """A tensor of zeros beside each parameter."""
        zeros = [
            Tensor.zeros(p.shape, dtype=_state_dtype(p), device=p.device).contiguous() for p in self.params
        ]
        return [zeros[0].realize(*zeros[1:]), *zeros[1:]]


class SGD(Optimizer):
    """Stochastic gradient descent.

    Args:
        params: tensors to change, as `Optimizer` takes them.
        lr: learning rate.
        momentum: how much of the last step is kept.
        weight_decay: this times the parameter is added to its gradient.
        nesterov: look ahead by the momentum (Sutskever et al., 2013, as PyTorch has it).
        classic: scale gradients by the learning rate before they enter the momentum, rather than the whole
            step.

    Raises:
        as `Optimizer`.

    >>> w = Tensor([2.0])
    >>> optimizer = nn.optim.SGD([w], lr=0.25)
    >>> loss = w.square().sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [1.0]
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        classic: bool = False,
    ) -> None:
        super().__init__(params, lr)
        _need(0 <= momentum < 1, "momentum", momentum, "it lies in 0 … 1, without 1")
        _need(weight_decay >= 0, "weight_decay", weight_decay, "it is not negative")
        _need(not nesterov or momentum > 0, "momentum", momentum, "nesterov needs some")
        self.momentum, self.weight_decay, self.nesterov, self.classic = (
            momentum,
            weight_decay,
            nesterov,
            classic,
        )
        self.velocity = self._zeros() if momentum else []

    def _update(self, grads: list[Tensor]) -> list[Tensor]:
        for i, (param, grad) in enumerate(zip(self.params, grads, strict=True)):
            if self.weight_decay:
                grad = grad + param * self.weight_decay
            if self.classic:
                grad = grad * self.lr
            if self.momentum:
                velocity = self.velocity[i] * self.momentum + grad
                self.velocity[i].assign(velocity)
                grad = grad + velocity * self.momentum if self.nesterov else velocity
            _subtract(param, grad if self.classic else grad * self.lr)
        return self.velocity


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015).

    Args:
        params: tensors to change, as `Optimizer` takes them.
        lr: learning rate.
        b1, b2: decay of the means of gradients and of their squares.
        eps: added to the root of the latter.
        weight_decay: this times the parameter is added to its gradient.

    Attributes:
        m, v: for each parameter, the mean of gradients and of their squares, with zeros before the first
            step; of the parameter's dtype, or float32 if that is narrower.
        c1, c2: the weight that those means give to gradients, 1 - b1ⁿ and 1 - b2ⁿ after n steps; float32
            scalars.

    Raises:
        as `Optimizer`.

    >>> w = Tensor([2.0])
    >>> optimizer = nn.optim.Adam([w], lr=0.5)
    >>> loss = w.square().sum().backward()
    >>> optimizer.step()
    >>> round(w.item(), 4)
    1.5
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr)
        _need(0 <= b1 < 1, "b1", b1, "it lies in 0 … 1, without 1")
        _need(0 <= b2 < 1, "b2", b2, "it lies in 0 … 1, without 1")
        _need(eps >= 0, "eps", eps, "it is not negative")
        _need(weight_decay >= 0, "weight_decay", weight_decay, "it is not negative")
        self.b1, self.b2, self.eps, self.weight_decay = b1, b2, eps, weight_decay
        self.c1, self.c2 = self._scalar(0.0), self._scalar(0.0)
        self.m, self.v = self._zeros(), self._zeros()

    def _update(self, grads: list[Tensor]) -> list[Tensor]:
        # Kept as they are, not as powers of the betas: 1 - 0.999 of float32 is off by 1e-5.
        self.c1.assign(self.c1 * self.b1 + (1 - self.b1))
        self.c2.assign(self.c2 * self.b2 + (1 - self.b2))
        size, root = self.lr / self.c1, self.c2.rsqrt()
        for param, grad, m, v in zip(self.params, grads, self.m, self.v, strict=True):
            grad = self._decay_gradient(param, grad)
            # Each store below is of a value made from old values, so that none waits for another.
            mean = m * self.b1 + grad * (1 - self.b1)
            square = v * self.b2 + grad * grad * (1 - self.b2)
            m.assign(mean)
            v.assign(square)
            _subtract(param, self._decay_step(param, size * mean / (square.sqrt() * root + self.eps)))
        return [self.c1, self.c2, *self.m, *self.v]

    def _decay_gradient(self, param: Tensor, grad: Tensor) -> Tensor:
        return grad + param * self.weight_decay if self.weight_decay else grad

    def _decay_step(self, param: Tensor, step: Tensor) -> Tensor:
        return step


class AdamW(Adam):
    """Adam whose weight decay does not go through the moments (Loshchilov and Hutter, 2019).

    Args:
        params, lr, b1, b2, eps: as `Adam`.
        weight_decay: part of the parameter, times lr, that each step takes away.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay)

    def _decay_gradient(self, param: Tensor, grad: Tensor) -> Tensor:
        return grad

    def _decay_step(self, param: Tensor, step: Tensor) -> Tensor:
        return step + self.lr * self.weight_decay * param if self.weight_decay else step


class OneCycleLR:
    """The one-cycle schedule of a learning rate (Smith and Topin, 2018), in PyTorch's form: along a half
    cosine from max_lr / div_factor up to max_lr, then along another down to max_lr / div_factor /
    final_div_factor. Momentum is left alone. Step n sets the rate of the optimizer's step n + 1; after
    total_steps - 1 of them the rate stays.

    Args:
        optimizer: whose `lr` is set, now and at each `step`.
        max_lr: the peak.
        total_steps: number of the optimizer's steps.
        pct_start: part of them that the way up takes.
        div_factor: peak over start.
        final_div_factor: start over end.

    Raises:
        SettingError: a number is out of its range.

    >>> optimizer = nn.optim.SGD([Tensor([1.0])])
    >>> schedule = nn.optim.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> rates = [round(optimizer.lr.item(), 3)]
    >>> for _ in range(2):
    ...     schedule.step()
    ...     rates.append(round(optimizer.lr.item(), 3))
    >>> rates
    [0.04, 0.52, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float,
        total_steps: int,
        pct_start: float = 0.3,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        _need(max_lr > 0, "max_lr", max_lr, "it is positive")
        _need(total_steps >= 1, "total_steps", total_steps, "it is at least 1")
        _need(0 <= pct_start <= 1, "pct_start", pct_start, "it lies in 0 … 1")
        _need(div_factor > 0, "div_factor", div_factor, "it is positive")
        _need(final_div_factor > 0, "final_div_factor", final_div_factor, "it is positive")
        self.optimizer, self.max_lr = optimizer, max_lr
        self.start = max_lr / div_factor
        self.end = self.start / final_div_factor
        self.peak_at, self.last = pct_start * total_steps - 1, total_steps - 1
        self.count = Tensor(0.0, optimizer.lr.device, dtypes.float32)
        optimizer.lr.assign(self._at(self.count)).realize()

    def step(self) -> None:
        """Set the next rate."""
        changed = self.schedule_step()
        changed[0].realize(*changed[1:])

    def schedule_step(self) -> list[Tensor]:
        """Assign the next rate; returns what was assigned to, for the caller to realize."""
        count = self.count + 1
        self.count.assign(count)
        return [self.count, self.optimizer.lr.assign(self._at(count))]

    def _at(self, count: Tensor) -> Tensor:
        """The rate after `count` steps of the schedule."""
        # Counts are whole, so where the way up ends before step 1 only 0 / x is ever used of it.
        at = count.minimum(self.last)
        up = _half_cosine(self.start, self.max_lr, at / max(self.peak_at, 1))
        down = _half_cosine(self.max_lr, self.end, (at - self.peak_at) / ((self.last - self.peak_at) or 1))
        return (at <= self.peak_at).where(up, down)


def _half_cosine(start: float, end: float, part: Tensor) -> Tensor:
    return ((part * math.pi).cos() + 1) * ((start - end) / 2) + end


def _subtract(param: Tensor, step: Tensor) -> None:
    param.assign((param.detach() - step).cast(param.dtype))


def _state_dtype(param: Tensor) -> dtypes.DType:
    """Narrow floats would lose small steps: their moments are float32, and a step is rounded once."""
    return dtypes.float32 if param.dtype in dtypes.narrow_floats else param.dtype


def _checked(params: Sequence[Tensor]) -> list[Tensor]:
    """The parameters, marked as such."""
    found: list[Tensor] = []
    for i, param in enumerate(params):
        if not isinstance(param, Tensor):
            raise DTypeError(
                f"parameter {i} is a {type(param).__name__}", "give tensors: nn.state.get_parameters(model)"
            )
        for j, other in enumerate(found):
            if param is other:
                raise GradientError(f"parameter {i} is parameter {j} again", "give each tensor once")
        if param.device != params[0].device:
            raise DeviceError(
                f"parameters on {params[0].device} and {param.device}", "make an optimizer for each device"
            )
        found.append(param if param.is_param else param.is_param_())
    if not found:
        raise GradientError("an optimizer of no parameters", "give tensors: nn.state.get_parameters(model)")
    return found


def _need(right: bool, name: str, value: float, rule: str) -> None:
    if not right or math.isnan(value):
        raise SettingError(f"{name}={value}", rule)
