"""NaN and infinities anywhere, seen or masked out, in every plan, against float64 loops.

What is masked out takes no part.  Of what is seen, numbers that are none go where IEEE arithmetic
takes them; under a mask a weight of exactly 0 counts as none.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import symattn as sa
from symattn.nodes import Mask
from tests import loops

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("each_plan")

d_k, d_v, n, m = sa.dims("d_k d_v n m")
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
B, D = sa.matrix("B", n, m), sa.matrix("D", n, m)

MASKS: dict[str, Mask | None] = {
    "none": None,
    "keep": sa.keep(),
    "padding": sa.padding(),
    "causal": sa.causal("top_left"),
    "window": sa.window(3, "bottom_right"),
}

FORMULAS = {
    "plain": lambda P: P @ V,
    "negative": lambda P: (V.T @ (-2 * P).T).T,
    "factors": lambda P: sa.hadamard(P, D) / 0.75 @ V,
    "more factors": lambda P: sa.hadamard(D, sa.hadamard(2 * P, D)) @ V,
}


def factor(name: str, d: float) -> float:
    """What a weight is multiplied with."""
    return {"plain": 1, "negative": -2, "factors": d / 0.75, "more factors": 2 * d * d}[name]


def seen(name: str, keep: Array, padding: Array, queries: int, keys: int) -> Array:
    """Which query sees which key."""
    i, j = np.arange(queries)[:, None], np.arange(keys)[None, :]
    table: dict[str, Array] = {
        "none": i + j >= 0,
        "keep": keep,
        "padding": padding & (i >= 0),
        "causal": j <= i,
        "window": abs(i + keys - queries - j) < 3,
    }
    return table[name]


def by_hand(arrays: dict[str, Array], allowed: Array, formula: str, *, masked: bool) -> Array:
    """One query after another, over the keys that it sees."""
    q, k, v = arrays["Q"], arrays["K"], arrays["V"]
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        js = [j for j in range(len(k)) if allowed[i, j]]
        products = (sum(float(x) * float(y) for x, y in zip(q[i], k[j], strict=True)) for j in js)
        scores = [x / 2 + float(arrays["B"][i, j]) for x, j in zip(products, js, strict=True)]
        if any(math.isnan(s) or s == math.inf for s in scores):
            weights = [math.nan] * len(js)
        elif any(math.isfinite(s) for s in scores):
            weights = loops.softmax_of(scores)
        else:
            weights = [0.0 if masked else math.nan] * len(js)
        for weight, j in zip(weights, js, strict=True):
            none = masked and weight == 0
            of_key = 0.0 if none else weight * factor(formula, float(arrays["D"][i, j]))
            if of_key != 0 or not masked:
                out[i] = [float(x) + of_key * float(y) for x, y in zip(out[i], v[j], strict=True)]
    return out


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    queries, keys = draw(st.integers(1, 9)), draw(st.integers(1, 14))
    shapes = {
        "Q": (queries, 4),
        "K": (keys, 4),
        "V": (keys, 2),
        "B": (queries, keys),
        "D": (queries, keys),
    }
    random = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = {name: random.normal(size=shape) for name, shape in shapes.items()}
    for _ in range(draw(st.integers(0, 5))):
        array = arrays[draw(st.sampled_from(sorted(shapes)))]
        at = tuple(draw(st.integers(0, size - 1)) for size in array.shape)
        array[at] = draw(st.sampled_from([math.nan, math.inf, -math.inf, 0.0]))
    return {
        "arrays": arrays,
        "keep": random.random((queries, keys)) < 0.5,
        "padding": random.random(keys) < 0.5,
        "mask": draw(st.sampled_from(sorted(MASKS))),
        "formula": draw(st.sampled_from(sorted(FORMULAS))),
    }


def computed(case: dict[str, Any]) -> tuple[Array, Array]:
    """What the plan computes for a case, and what the loops do."""
    mask, name, arrays = MASKS[case["mask"]], case["formula"], case["arrays"]
    P = sa.softmax(Q @ K.T / sa.sqrt(d_k) + B, axis=1, mask=mask)
    inputs = [Q, K, V, B] if name in ("plain", "negative") else [Q, K, V, B, D]
    f = sa.lambdify(inputs, FORMULAS[name](P))
    given_masks = {label: case[label] for label in ("keep", "padding") if label == case["mask"]}
    found = f(*(arrays[symbol.label] for symbol in inputs), **given_masks)
    allowed = seen(case["mask"], case["keep"], case["padding"], *arrays["B"].shape)
    return found, by_hand(arrays, allowed, name, masked=mask is not None)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_it_goes_where_the_loops_take_it(case: dict[str, Any]) -> None:
    found, expected = computed(case)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("formula", ["factors", "more factors"])
@pytest.mark.parametrize("mask", [name for name in MASKS if name != "none"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_factors_of_what_is_masked_out(bad: float, mask: str, formula: str) -> None:
    """At every place that is masked out, at all borders of blocks."""
    random = np.random.default_rng(1)
    for queries, keys in ((1, 1), (3, 5), (4, 6), (5, 7), (9, 13)):
        shapes = {"Q": (queries, 4), "K": (keys, 4), "V": (keys, 2), "B": (queries, keys)}
        arrays = {name: random.normal(size=shape) for name, shape in shapes.items()}
        keep, padding = random.random((queries, keys)) < 0.5, random.random(keys) < 0.5
        factors = np.where(seen(mask, keep, padding, queries, keys), 1.5, bad)
        case = {"arrays": arrays | {"D": factors}, "keep": keep, "padding": padding}
        found, expected = computed(case | {"mask": mask, "formula": formula})
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_factors_that_are_computed_and_heads_of_them() -> None:
    """The product may lie in the memory of either factor, and have more leading axes."""
    X, random = sa.matrix("X", n, m), np.random.default_rng(2)
    for mask in (sa.causal("top_left"), sa.keep()):
        weights = sa.softmax(X, axis=1, mask=mask)
        x, d, v = (random.normal(size=shape) for shape in ((5, 7), (3, 5, 7), (7, 2)))
        keep = random.random((5, 7)) < 0.5
        named = {"keep": keep} if mask == sa.keep() else {}
        allowed = keep if named else np.tri(5, 7, dtype=bool)
        clean = np.where(allowed, d, 0)
        bad = np.where(allowed, d, math.nan)
        for change in (
            lambda P: sa.hadamard(P, D),
            lambda P: sa.hadamard(D / 2, P),
            lambda P: sa.hadamard(sa.tanh(D), 3 * P, D),
            lambda P: -sa.hadamard(P.T, D.T).T,
        ):
            f = sa.lambdify([X, D, V], change(weights) @ V)
            expected = f(x, clean, v, **named)
            np.testing.assert_allclose(f(x, bad, v, **named), expected, rtol=1e-12, atol=1e-13)
            alone = sa.lambdify([X, D], change(weights))
            expected = alone(x, clean, **named)
            np.testing.assert_array_equal(alone(x, bad, **named), expected)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_infinite_weights(value: float) -> None:
    """Weights of an exp may be infinite: times an infinite value they are what IEEE says."""
    S = sa.matrix("S", n, m)
    for weights in (
        sa.exp(S + sa.additive_mask(sa.causal("top_left"), n, m, axis=1)),
        -sa.exp(S + sa.additive_mask(sa.causal("top_left"), n, m, axis=1)),
    ):
        f = sa.lambdify([S, V], weights @ V)
        s, v = np.zeros((3, 3)), np.ones((3, 2))
        s[1, 0], s[0, 2] = math.inf, math.nan
        v[0, 0], v[2, 1] = value, math.nan
        sign = f(np.zeros((3, 3)), np.ones((3, 2)))[0, 0]
        expected = sign * np.array([[value, 1], [value * math.inf, math.inf], [value, math.nan]])
        np.testing.assert_array_equal(f(s, v), expected)
