"""The attentions that are measured: as formulas, in plain float64, in PyTorch, as bare products.

`Attention` names one: which keys a query sees and what its scores are.  Arrays are (…, tokens, d)
here; generated functions of the column layout get them transposed, made contiguous beforehand.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import symattn as sa

CAP = 20.0
SLOPE = 2.0**-4
WIDTH = 256
TOLERANCE = 1e-5  # of the largest entry
ROWS_CHECKED = 48  # queries of every head that are computed in float64

torch: Any = importlib.import_module("torch") if find_spec("torch") else None


class DiffersError(Exception):
    """A candidate does not compute attention, so its time means nothing."""


@dataclass(frozen=True)
class Attention:
    """softmax(Q Kᵀ / √d_k) V with another score, a mask, or neither."""

    causal: bool = False
    softcap: bool = False
    alibi: bool = False
    window: bool = False

    @property
    def name(self) -> str:
        """What a table calls it."""
        kinds = ("softcap", "ALiBi", f"window {WIDTH}")
        held = (self.softcap, self.alibi, self.window)
        named = [kind for kind, has in zip(kinds, held, strict=True) if has]
        return " ".join([*named, *([] if self.window else ["causal" if self.causal else "full"])])


FULL, CAUSAL = Attention(), Attention(causal=True)


def written(which: Attention, layout: str) -> tuple[list[Any], Any, dict[str, float]]:
    """The inputs Q, K, V and scalars, the formula, and the values of the scalars."""
    n, m, d_k, d_v = sa.dims("n m d_k d_v")
    c, slope = sa.scalar("c", positive=True), sa.scalar("slope")
    keys = n if which.causal else m
    shapes = {"Q": (n, d_k), "K": (keys, d_k), "V": (keys, d_v)}
    Q, K, V = (
        sa.matrix(name, *(shape if layout == "row" else shape[::-1]))
        for name, shape in shapes.items()
    )

    def capped(q: Any, k: Any) -> Any:
        return c * sa.tanh(k.T @ q / (c * sa.sqrt(d_k)))

    mask = sa.causal() if which.causal else None
    formula = sa.attention(
        Q,
        K,
        V,
        score=capped if which.softcap else "scaled_dot",
        bias=(lambda i, j: -slope * (i - j)) if which.alibi else None,
        mask=sa.causal() & sa.window(WIDTH) if which.window else mask,
        layout=layout,
    )
    numbers = {"c": (c, CAP)} if which.softcap else {"slope": (slope, SLOPE)} if which.alibi else {}
    inputs = [Q, K, V, *(symbol for symbol, _ in numbers.values())]
    return inputs, formula, {name: value for name, (_, value) in numbers.items()}


def generated(which: Attention, layout: str, plan: str) -> Callable[..., Any]:
    """The function of Q, K and V that symattn generates, on one worker unless it is told."""
    inputs, formula, values = written(which, layout)
    function = sa.lambdify(inputs, formula, plan=plan)
    if plan == "direct":
        return lambda *arrays: function(*arrays, **values)
    return lambda *arrays, workers=1: function(*arrays, **values, workers=workers)


def turned(x: Any) -> Any:
    """Tokens in columns."""
    return np.ascontiguousarray(x.swapaxes(-1, -2))


def naive(q: Any, k: Any, v: Any) -> Any:
    """Attention as it is usually written in NumPy."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]).astype(q.dtype)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def naive_column(q: Any, k: Any, v: Any) -> Any:
    """The same with tokens in columns."""
    scores = k.swapaxes(-1, -2) @ q / np.sqrt(q.shape[-2]).astype(q.dtype)
    weights = np.exp(scores - scores.max(axis=-2, keepdims=True))
    return v @ (weights / weights.sum(axis=-2, keepdims=True))


def products(arrays: list[Any], causal: bool, layout: str = "row") -> Callable[[], None]:
    """Only the matrix products of attention, 256 queries by at most 512 keys at a time."""
    q, k, v = (x if layout == "row" else x.swapaxes(-1, -2) for x in arrays)  # views
    n, m, d_v, rows, most = q.shape[-2], k.shape[-2], v.shape[-1], 256, 512
    scores, out = np.empty(rows * most, q.dtype), np.empty((rows, d_v), q.dtype)

    def run() -> None:
        for head in np.ndindex(q.shape[:-2]):
            for i in range(0, n, rows):
                b, seen = min(rows, n - i), min(m, i + rows) if causal else m
                count = -(-seen // most)
                w = -(-seen // count)
                for j in range(0, seen, w):
                    z = min(j + w, seen)
                    s = scores[: b * (z - j)].reshape(b, z - j)
                    np.matmul(q[head][i : i + b], k[head][j:z].T, out=s)
                    np.matmul(s, v[head][j:z], out=out[:b])

    return run


def exact(which: Attention, arrays: list[Any], i: Any) -> Any:
    """The queries at positions i in float64, written from the formula."""
    q, k, v = (x.astype(np.float64) for x in arrays)
    q = q[..., i, :]
    j, i = np.arange(k.shape[-2]), i[:, None]
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if which.softcap:
        scores = CAP * np.tanh(scores / CAP)
    if which.alibi:
        scores = scores - SLOPE * (i - j)
    if which.causal:
        scores = np.where(j <= i, scores, -np.inf)
    if which.window:
        scores = np.where(i - j < WIDTH, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def check(
    which: Attention, arrays: list[Any], results: dict[str, Any], tolerance: float = TOLERANCE
) -> None:
    """Raise `DiffersError` for a result whose error is larger, relative to the largest entry."""
    n = arrays[0].shape[-2]
    sampled = np.random.default_rng(1).integers(0, n, ROWS_CHECKED)
    i = np.unique(np.concatenate([np.arange(min(4, n)), np.arange(max(0, n - 4), n), sampled]))
    true = exact(which, arrays, i)
    for name, result in results.items():
        error = float(np.abs(np.asarray(result)[..., i, :] - true).max() / np.abs(true).max())
        if not error <= tolerance:
            shape = arrays[0].shape
            raise DiffersError(f"{name} ({which.name}, {shape}) is {error:.1e} off float64")


def sdpa(arrays: list[Any], causal: bool = False, grouped: bool = False) -> Callable[[], Any]:
    """PyTorch's attention on the same memory."""
    tensors = [torch.from_numpy(x) for x in arrays]
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(*tensors, is_causal=causal, enable_gqa=grouped)


def flex(which: Attention, arrays: list[Any]) -> Callable[[], Any]:
    """PyTorch's attention with a score of one's own, compiled for this attention alone."""
    library = importlib.import_module("torch.nn.attention.flex_attention")
    # After some compilations of one function the compiler gives up, and everything runs slowly.
    torch._dynamo.reset()
    compiled = torch.compile(library.flex_attention)
    tensors = [torch.from_numpy(x) for x in arrays]
    n, m = arrays[0].shape[-2], arrays[1].shape[-2]

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        if which.softcap:
            s = CAP * torch.tanh(s / CAP)
        return s - SLOPE * (i - j) if which.alibi else s

    def visible(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (j <= i) & (i - j < WIDTH) if which.window else j <= i

    blocks = (
        library.create_block_mask(visible, None, None, n, m, device="cpu") if which.causal else None
    )
    modified = score if which.softcap or which.alibi else None
    return lambda: compiled(*tensors, score_mod=modified, block_mask=blocks)
