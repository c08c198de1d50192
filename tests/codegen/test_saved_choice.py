"""A saved module takes the plan that the function takes that it was saved from."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import symattn as sa

Array = np.ndarray[Any, Any]

n, m, c, d_k, d_v, h = sa.dims("n m c d_k d_v h")
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
S = Q @ K.T / sa.sqrt(d_k)
D_K, D_V, H = 4, 3, 6


def plain() -> Any:
    return sa.lambdify([Q, K, V], sa.softmax(S, axis=1) @ V)


def sink() -> Any:
    s = sa.vector("s", n)
    weights = sa.softmax(sa.concat(S, s, axis=1), axis=1)
    values = sa.concat(V, 0 * sa.ones(1, d_v), axis=0)
    return sa.lambdify([Q, K, V, s], weights @ values)


def cache() -> Any:
    old_k, old_v = sa.matrix("C", c, d_k), sa.matrix("D", c, d_v)
    scores = sa.concat(Q @ old_k.T, Q @ K.T, axis=1)
    formula = sa.softmax(scores, axis=1) @ sa.concat(old_v, V, axis=0)
    return sa.lambdify([Q, old_k, old_v, K, V], formula)


def heads() -> Any:
    i, W = sa.index("i", h), sa.family("W", h, d_k, d_k)
    weights = sa.softmax(Q @ W[i] @ K.T, axis=1, mask=sa.keep())
    return sa.lambdify([Q, K, V, W], sa.sum_over(weights @ V, i))


def twice_as_many_heads() -> Any:
    i, W = sa.index("i", 2 * h), sa.family("W", 2 * h, d_k, d_k)
    return sa.lambdify([Q, K, V, W], sa.sum_over(sa.softmax(Q @ W[i] @ K.T, axis=1) @ V, i))


def heads_side_by_side() -> Any:
    i = sa.index("i", h)
    q, k = sa.matrix("Q", n, h * d_k), sa.matrix("K", m, h * d_k)
    weights = sa.softmax(sa.head(q, i, axis=1) @ sa.head(k, i, axis=1).T / sa.sqrt(d_k), axis=1)
    return sa.lambdify([q, k, V], sa.sum_over(weights @ V, i))


def no_softmax() -> Any:
    gates = sa.hadamard(sa.sigmoid(S), sa.indicator(sa.causal("top_left"), n, m, axis=1))
    return sa.lambdify([Q, K, V], gates @ V)


def no_softmax_beside() -> Any:
    old_k, old_v = sa.matrix("C", c, d_k), sa.matrix("D", c, d_v)
    scores = sa.concat(Q @ old_k.T, Q @ K.T, axis=1)
    return sa.lambdify([Q, old_k, old_v, K, V], sa.sigmoid(scores) @ sa.concat(old_v, V, axis=0))


FORMULAS: dict[str, Callable[[], Any]] = {
    "plain": plain,
    "a sink": sink,
    "a cache": cache,
    "heads": heads,
    "twice as many heads": twice_as_many_heads,
    "heads side by side": heads_side_by_side,
    "no softmax": no_softmax,
    "no softmax, a cache": no_softmax_beside,
}
SIZES = [
    *((1, 1, keys) for keys in (10, 2**16 // 17)),
    *((1, 17, keys) for keys in (3854, 3855, 3856)),  # 17 · 3855 is 2¹⁶ − 1
    *((stack, 16, 2**8) for stack in (50, 86, 171, 172, 600, 1100)),
]


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_plan_is_the_same(formula: Callable[[], Any], dtype: Any, tmp_path: Path) -> None:
    f = formula()
    compute = run_path(str(f.save(tmp_path / "a.py")))["compute"]
    taken: list[str] = []
    for function, plan in (("_in_slices", "direct"), ("_compute_blocked", "blocked")):
        assert function in compute.__globals__
        compute.__globals__[function] = partial(spied, taken, plan)
    wanted: list[str] = []
    for stack, queries, keys in SIZES:
        tags = {"n": queries, "m": keys, "c": 2, "d_k": D_K, "d_v": D_V, "h": H}
        given = [zeros(item, stack, tags, dtype) for item in f.inputs]
        masks = {"keep": np.broadcast_to(True, (queries, keys))} if formula is heads else {}
        by_name = {"h": H} if formula is heads_side_by_side else {}
        compute(*given, **masks, **by_name)
        chosen = f._plans.suited(tags, given, masks)
        wanted.append("blocked" if chosen.source is f._plans.by_name["blocked"] else "direct")
    assert taken == wanted
    assert set(wanted) == {"direct", "blocked"}


def spied(taken: list[str], plan: str, *_: Any, **__: Any) -> None:
    taken.append(plan)


def zeros(item: Any, stack: int, tags: dict[str, int], dtype: Any) -> Array:
    """Zeros for an input, in no memory; inputs of one letter have a leading axis."""
    axes = item.sizes[:1] if item.label == "s" else item.sizes
    leading = (stack,) if item.label in "QKV" else ()
    return np.broadcast_to(dtype(0), (*leading, *(size.value(tags) for size in axes)))


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("returns", [None, ("lse", "output")])
def test_blocks_are_written_where_out_is(returns: Any, is_turned: bool, tmp_path: Path) -> None:
    f = sa.lambdify([Q, K, V], sa.softmax(S, axis=1) @ V, returns=returns)
    compute = run_path(str(f.save(tmp_path / "a.py")))["compute"]
    library, copied = compute.__globals__["np"], []
    compute.__globals__["np"] = SimpleNamespace(**vars(library) | {"copyto": copied.append})
    random = np.random.default_rng(0)
    q, k, v = (random.normal(size=(2, 300, size)).astype(np.float16) for size in (D_K, D_K, D_V))
    out = np.empty((2, 300, D_V), np.float16)
    if is_turned:
        out = np.empty((D_V, 300, 2), np.float16).T
    found, expected = compute(q, k, v, out=out), f(q, k, v)
    assert copied == []
    assert (found if returns is None else found[1]) is out
    np.testing.assert_array_equal(out, expected if returns is None else expected[1])
