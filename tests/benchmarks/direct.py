"""The time of generated NumPy functions over naive NumPy, as medians of interleaved runs.

Run it with `python tests/benchmarks/direct.py`; it prints and asserts nothing.  Below 1 the
generated function is faster.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import symattn as sa

ROUNDS = 15
SHAPES = ((), 64, 64), ((8,), 128, 64), ((8,), 512, 64), ((8,), 1024, 64)


def naive_row(q: Any, k: Any, v: Any) -> Any:
    """Attention as it is usually written."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]).astype(q.dtype)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def naive_column(q: Any, k: Any, v: Any) -> Any:
    """The same with tokens in columns."""
    scores = np.swapaxes(k, -1, -2) @ q / np.sqrt(q.shape[-2]).astype(q.dtype)
    weights = np.exp(scores - scores.max(axis=-2, keepdims=True))
    return v @ (weights / weights.sum(axis=-2, keepdims=True))


def seconds(function: Callable[..., Any], arrays: list[Any]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    function(*arrays)
    return time.perf_counter() - start


def main() -> None:
    """Print one line for each layout and shape."""
    print(f"{'layout':8}{'batch':>8}{'n':>6}{'d':>5}{'naive ms':>11}{'ratio':>8}")
    for layout, naive in (("row", naive_row), ("column", naive_column)):
        formula = sa.formula("scaled_dot_product", layout=layout)
        generated = sa.lambdify(formula.inputs, formula)
        for batch, n, d in SHAPES:
            shape = (*batch, n, d) if layout == "row" else (*batch, d, n)
            random = np.random.default_rng(0)
            arrays = [random.normal(size=shape).astype(np.float32) for _ in range(3)]
            pairs = [(seconds(naive, arrays), seconds(generated, arrays)) for _ in range(ROUNDS)]
            ratio = statistics.median(ours / theirs for theirs, ours in pairs)
            naive_time = statistics.median(theirs for theirs, _ in pairs) * 1e3
            print(f"{layout:8}{batch!s:>8}{n:6}{d:5}{naive_time:11.3f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
