"""Small networks trained for a few steps, beside the same mathematics in numpy's double precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tiny_conformance.compare import Array
from tiny_conformance.suite.ops.test_conv import windows
from tiny_conformance.target import Target
from tiny_core import Tensor, jit, nn

STEPS = 6
RATE = 0.1


@dataclass(frozen=True, slots=True)
class Problem:
    """Inputs, their classes, and initial weights."""

    x: Array
    labels: Array
    weights: tuple[Array, ...]


def softmax_gradient(scores: Array, labels: Array) -> tuple[float, Array]:
    """Mean cross-entropy, and its gradient with respect to the scores."""
    e = np.exp(scores - scores.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(p[rows, labels]).mean())
    p[rows, labels] -= 1
    return loss, p / len(labels)


# ---- a perceptron ------------------------------------------------------------------------------------------


def perceptron_problem() -> Problem:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((32, 10))
    labels = (x[:, 0] > 0).astype(np.int32) + 2 * (x[:, 1] * x[:, 2] > 0).astype(np.int32)
    w = (rng.standard_normal((10, 24)) * 0.4, np.zeros(24), rng.standard_normal((24, 4)) * 0.4, np.zeros(4))
    return Problem(x, labels, w)


def perceptron(x: Tensor, w: list[Tensor]) -> Tensor:
    return (x @ w[0] + w[1]).tanh() @ w[2] + w[3]


def perceptron_numpy(p: Problem, w: list[Array]) -> tuple[float, list[Array]]:
    """Loss and gradients."""
    h = np.tanh(p.x @ w[0] + w[1])
    loss, d = softmax_gradient(h @ w[2] + w[3], p.labels)
    back = d @ w[2].T * (1 - h * h)
    return loss, [p.x.T @ back, back.sum(0), h.T @ d, d.sum(0)]


# ---- a convolutional net -----------------------------------------------------------------------------------


def convnet_problem() -> Problem:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((12, 2, 10, 10))
    labels = rng.integers(0, 3, 12).astype(np.int32)
    w = (
        rng.standard_normal((4, 2, 3, 3)) * 0.3, np.zeros(4), rng.standard_normal((6, 4, 3, 3)) * 0.2,
        rng.standard_normal((24, 3)) * 0.3,
    )  # fmt: skip
    return Problem(x, labels, w)


def convnet(x: Tensor, w: list[Tensor]) -> Tensor:
    h = x.conv2d(w[0], w[1]).relu().max_pool2d((2, 2))
    return h.conv2d(w[2]).relu().flatten(1) @ w[3]


def pooled(x: Array) -> tuple[Array, Array]:
    """2x2 maxima, and a mask of where they come from."""
    n, c, h, w = x.shape
    tiles = x.reshape(n, c, h // 2, 2, w // 2, 2)
    top = tiles.max((3, 5), keepdims=True)
    return top[:, :, :, 0, :, 0], (tiles == top).astype(float)


def convnet_numpy(p: Problem, w: list[Array]) -> tuple[float, list[Array]]:
    """Loss and gradients."""

    def seen(x: Array) -> Array:
        return windows(x, (3, 3), (1, 1), (1, 1))

    a = np.einsum("nipquv,oiuv->nopq", seen(p.x), w[0]) + w[1].reshape(1, -1, 1, 1)
    h, mask = pooled(np.maximum(a, 0))
    b = np.einsum("nipquv,oiuv->nopq", seen(h), w[2])
    flat = np.maximum(b, 0).reshape(len(p.x), -1)
    loss, d = softmax_gradient(flat @ w[3], p.labels)
    db = (d @ w[3].T).reshape(b.shape) * (b > 0)
    dh = np.zeros_like(h)
    for u in range(3):
        for v in range(3):
            dh[:, :, u : u + 2, v : v + 2] += np.einsum("nopq,oi->nipq", db, w[2][:, :, u, v])
    da = (mask * dh[:, :, :, None, :, None]).reshape(a.shape) * (a > 0)
    return loss, [
        np.einsum("nipquv,nopq->oiuv", seen(p.x), da), da.sum((0, 2, 3)),
        np.einsum("nipquv,nopq->oiuv", seen(h), db), flat.T @ d,
    ]  # fmt: skip


NETS = {
    "perceptron": (perceptron_problem, perceptron, perceptron_numpy),
    "convnet": (convnet_problem, convnet, convnet_numpy),
}
net = pytest.mark.parametrize("name", list(NETS))


def near(got: Array, want: Array, what: str, allowed: float) -> None:
    """Check within a part of the largest number."""
    off = np.abs(got - want).max() / np.abs(want).max()
    assert off <= allowed, f"{what} is off by {off:.3g} of its maximum, allowed {allowed}"


def narrow(x: Array) -> Tensor:
    return Tensor(x.astype(np.float32)).realize()


@net
def test_gradients_of_a_whole_net(name: str, target: Target) -> None:
    problem, ours, numpys = NETS[name]
    p = problem()
    w = [narrow(v) for v in p.weights]
    loss = ours(narrow(p.x), w).cross_entropy(Tensor(p.labels))
    gradients = loss.gradient(*w)
    loss.realize(*gradients)
    if target.stores:
        want, wants = numpys(p, list(p.weights))
        near(loss.numpy(), np.asarray(want), "the loss", 1e-5)
        for i, (g, v) in enumerate(zip(gradients, wants, strict=True)):
            near(g.numpy(), v, f"gradient {i}", 1e-4)


@net
@pytest.mark.parametrize("captured", [False, True], ids=["eager", "captured"])
def test_training_by_gradient_descent(name: str, captured: bool, target: Target) -> None:
    problem, ours, numpys = NETS[name]
    p = problem()
    w = [narrow(v) for v in p.weights]
    x, labels = narrow(p.x), Tensor(p.labels).realize()

    def step() -> Tensor:
        loss = ours(x, w).cross_entropy(labels)
        gradients = loss.gradient(*w)
        for v, g in zip(w, gradients, strict=True):
            v.assign(v - g * RATE)
        return loss.realize(*w)

    run = jit(step) if captured else step
    losses = [run().clone().realize() for _ in range(STEPS)]
    if not target.stores:
        return
    want, wants = [], [v.copy() for v in p.weights]
    for _ in range(STEPS):
        loss, gradients = numpys(p, wants)
        want.append(loss)
        wants = [v - RATE * g for v, g in zip(wants, gradients, strict=True)]
    near(np.array([t.item() for t in losses]), np.array(want), "the loss", 1e-3)
    for i, (v, exact) in enumerate(zip(w, wants, strict=True)):
        near(v.numpy(), exact, f"weight {i}", 1e-3)
    assert want[-1] < want[0]


def test_training_by_adam(target: Target) -> None:
    p = perceptron_problem()
    w = [narrow(v) for v in p.weights]
    for v in w:
        v.requires_grad = True
    x, labels = narrow(p.x), Tensor(p.labels).realize()
    optimizer = nn.optim.Adam(w, lr=0.01)
    with Tensor.train():
        for _ in range(STEPS):
            optimizer.zero_grad()
            perceptron(x, w).cross_entropy(labels).backward()
            optimizer.step()
    if not target.stores:
        return
    wants = [v.copy() for v in p.weights]
    m, s = [np.zeros_like(v) for v in wants], [np.zeros_like(v) for v in wants]
    for t in range(1, STEPS + 1):
        _, gradients = perceptron_numpy(p, wants)
        for i, g in enumerate(gradients):  # Kingma and Ba, ICLR 2015, algorithm 1
            m[i] = 0.9 * m[i] + 0.1 * g
            s[i] = 0.999 * s[i] + 0.001 * g * g
            wants[i] = wants[i] - 0.01 * (m[i] / (1 - 0.9**t)) / (np.sqrt(s[i] / (1 - 0.999**t)) + 1e-8)
    for i, (v, exact) in enumerate(zip(w, wants, strict=True)):
        near(v.numpy(), exact, f"weight {i}", 2e-2)


def test_a_transformer_block(target: Target) -> None:
    rng = np.random.default_rng(3)
    tokens = rng.integers(0, 20, (2, 9)).astype(np.int32)
    table, wq, wk, wv, wo = (rng.standard_normal(s) * 0.3 for s in ((20, 16), *((16, 16),) * 4))
    up, down = rng.standard_normal((16, 32)) * 0.3, rng.standard_normal((32, 16)) * 0.3
    named = {"e": table, "q": wq, "k": wk, "v": wv, "o": wo, "up": up, "down": down}
    t = {n: narrow(v) for n, v in named.items()}

    def heads(y: Tensor) -> Tensor:
        return y.reshape(2, 9, 4, 4).transpose(1, 2)

    x = t["e"][Tensor(tokens)]
    h = x.layernorm()
    mixed = heads(h @ t["q"]).scaled_dot_product_attention(
        heads(h @ t["k"]), heads(h @ t["v"]), is_causal=True
    )
    x = x + mixed.transpose(1, 2).reshape(2, 9, 16) @ t["o"]
    x = (x + (x.layernorm() @ t["up"]).relu() @ t["down"]).realize()
    if not target.stores:
        return

    def norm(y: Array) -> Array:
        return np.asarray((y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5))

    def split(y: Array) -> Array:
        return y.reshape(2, 9, 4, 4).swapaxes(1, 2)

    want = table[tokens]
    q, k, v = (split(norm(want) @ w) for w in (wq, wk, wv))
    scores = np.where(np.tril(np.ones((9, 9), bool)), q @ k.swapaxes(2, 3) / 2, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    attended = (e / e.sum(-1, keepdims=True)) @ v
    want = want + attended.swapaxes(1, 2).reshape(2, 9, 16) @ wo
    want = want + np.maximum(norm(want) @ up, 0) @ down
    near(x.numpy(), want, "the block", 1e-4)
