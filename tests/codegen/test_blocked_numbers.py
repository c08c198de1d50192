"""Numbers that are hard to sum: none, infinite, large and small ones, and no numbers at all."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.nodes import Mask
from tests.codegen.blocks import INPUTS, blocked, by_hand, called, in_small_blocks, random_rows
from tests.variants.points import each_layout

n, m, d = sa.dims("n m d")
Q, K, V = sa.matrix("Q", n, d), sa.matrix("K", m, d), sa.matrix("V", m, d)
S = Q @ K.T


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch)


def attended(scores: Any, **options: Any) -> Any:
    return sa.lambdify([Q, K, V], sa.softmax(scores, axis=1) @ V, plan="blocked", **options)


@pytest.mark.parametrize(
    "bias",
    [
        lambda i, j: 1 / (1 + (i - j) ** 2),
        lambda i, j: -((i - j) ** 10) / 10**24,
        lambda i, j: -((i - j) ** 8) / 10**18,
    ],
    ids=["an inverse power", "a power beyond 64 bits", "a large power"],
)
def test_positions_are_no_integers_of_64_bits(bias: Callable[[Any, Any], Any]) -> None:
    q, k, v = np.random.default_rng(0).normal(size=(3, 300, 8))
    f = attended(S + sa.positional(bias, n, m, layout="row"))
    i, j = np.arange(300.0)[:, None], np.arange(300.0)
    scores = q @ k.T + bias(i, j)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True) @ v
    np.testing.assert_allclose(f(q, k, v), expected, rtol=1e-10, atol=1e-13)


def test_an_infinite_value_has_the_sign_of_its_weight() -> None:
    X = sa.matrix("X", n, n)
    weights = sa.softmax(X, axis=1, mask=sa.causal())
    F = sa.hadamard(weights, sa.matrix("D", n, n)) @ sa.matrix("V", n, d)
    x, factors, values = np.zeros((300, 300)), np.ones((300, 300)), np.ones((300, 2))
    factors[5, 0], values[0, 0] = -2, np.inf
    for plan in ("blocked", "direct"):
        f = sa.lambdify([X, sa.matrix("D", n, n), sa.matrix("V", n, d)], F, plan=plan)
        result = f(x, factors, values)
        assert result[5, 0] == -np.inf
        assert result[4, 0] == result[6, 0] == np.inf
        assert np.isfinite(result[:, 1]).all()


@pytest.mark.parametrize("score", [-20.0, -8.0, 0.0])
def test_small_values_keep_their_digits(score: float) -> None:
    f = attended(S)
    q, k = np.full((64, 1), score, np.float32), np.ones((4096, 1), np.float32)
    values = np.full((4096, 1), 1e-36, np.float32)
    np.testing.assert_allclose(f(q, k, values), 1e-36, rtol=1e-5)


@each_layout
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("mask", [None, sa.causal("top_left"), sa.keep()], ids=str)
def test_what_is_no_number_goes_where_it_goes_in_the_direct_plan(
    layout: str, bad: float, mask: Mask | None
) -> None:
    direct = sa.lambdify(
        INPUTS[layout],
        sa.attention(*INPUTS[layout], mask=mask, layout=layout),
        plan="direct",
    )
    f = blocked(layout, mask=mask)
    random = np.random.default_rng(4)
    named = {"keep": random.random((9, 13)) < 0.5} if mask == sa.keep() else {}
    for which in range(3):
        for at in ((0, 0), (5, 1), (8, 2)):
            arrays = random_rows(9, 13, seed=which)
            arrays[which][at] = bad
            expected = called(direct, layout, *arrays, **named)
            found = called(f, layout, *arrays, **named)
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@each_layout
def test_no_number_among_masked_out_keys_has_no_influence(layout: str) -> None:
    q, k, v = random_rows(9, 13)
    keep = np.random.default_rng(1).random((9, 13)) < 0.6
    keep[4] = False
    keep[:, [3, 10, 12]] = False
    expected = by_hand(q, k, v, seen=lambda i, j: keep[i, j])
    k[3], v[3], k[10], v[12] = np.nan, np.nan, np.inf, -np.inf
    found = called(blocked(layout, mask=sa.keep()), layout, q, k, v, keep=keep)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    assert not found[4].any()


@each_layout
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shift", [-300, -60, 60, 300])
@pytest.mark.parametrize("scale", [1, 40])
def test_large_scores(layout: str, dtype: str, shift: float, scale: float) -> None:
    f = blocked(layout, bias=lambda i, j: sa.scalar("b") + 0 * (i + j))
    q, k, v = (array.astype(dtype) for array in random_rows(9, 13))
    q *= scale
    found = called(f, layout, q, k, v, b=shift)
    exact = by_hand(q.astype(float), k.astype(float), v.astype(float))
    assert found.dtype == dtype
    tolerance = {"float32": 1e-4, "float64": 1e-11}[dtype]
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)


@each_layout
@pytest.mark.parametrize("mask", [None, sa.causal("top_left"), sa.keep()], ids=str)
@pytest.mark.parametrize("empty", ["queries", "keys", "batch", "values"])
def test_axes_of_size_zero(layout: str, mask: Mask | None, empty: str) -> None:
    f = blocked(layout, mask=mask)
    queries, keys = 0 if empty == "queries" else 9, 0 if empty == "keys" else 13
    batch = 0 if empty == "batch" else 2
    q, k, v = random_rows(queries, keys, batch)
    v = v[..., : 0 if empty == "values" else None]
    named = {"keep": np.ones((batch, queries, keys), bool)} if mask == sa.keep() else {}
    found = called(f, layout, q, k, v, **named)
    assert found.shape == (batch, queries, v.shape[-1])
    assert not found.any() or empty not in ("keys", "queries")
