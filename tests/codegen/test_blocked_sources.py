"""Weighted sums in blocks where sizes are one, heads share what they read, and names are taken."""

import math
from typing import Any, cast

import numpy as np
import pytest

import symattn as sa
from tests.codegen.blocks import by_hand, in_small_blocks, random_rows

Array = np.ndarray[Any, Any]

d_k, d_v, n, m, h, g = sa.dims("d_k d_v n m h g")
i, k = sa.index("i", h), sa.index("k", g)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch)


def both(inputs: Any, formula: Any, *arrays: Any, **named: Any) -> Array:
    """The result in blocks, which is that with whole matrices."""
    found = sa.lambdify(inputs, formula, plan="blocked")(*arrays, **named)
    direct = sa.lambdify(inputs, formula, plan="direct")(*arrays, **named)
    np.testing.assert_allclose(found, direct, rtol=1e-11, atol=1e-13)
    assert found.shape == direct.shape
    return found


# Axes of size one.


@pytest.mark.parametrize("queries", [1, n])
@pytest.mark.parametrize("keys", [1, m])
@pytest.mark.parametrize(
    "mask",
    [
        None,
        sa.causal("top_left"),
        sa.causal("bottom_right"),
        ~sa.causal("bottom_right"),
        sa.window(2, "bottom_right"),
        sa.prefix(1),
        sa.keep(),
        sa.padding(),
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", ["row", "column"])
def test_one_query_and_one_key(queries: Any, keys: Any, mask: Any, layout: str) -> None:
    axes = ((queries, d_k), (keys, d_k), (keys, d_v))
    turn = -1 if layout == "column" else 1
    inputs: list[Any] = [
        sa.matrix(name, *sizes[::turn]) for name, sizes in zip("QKV", axes, strict=True)
    ]
    formula = sa.attention(*inputs, mask=mask, layout=layout, bias=lambda i, j: 0.125 * (i - j))
    rows = random_rows(1 if queries == 1 else 9, 1 if keys == 1 else 13)
    given = [array if layout == "row" else array.T for array in rows]
    shape = len(rows[0]), len(rows[1])
    booleans = {
        "keep": np.random.default_rng(0).random(shape) < 0.6,
        "padding": np.random.default_rng(0).random(shape[1]) < 0.6,
    }
    both(inputs, formula, *given, **{a.label: booleans[a.label] for a in formula.booleans()})


# Heads.


def test_scores_of_all_heads_and_values_of_each() -> None:
    Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.family("V", h, m, d_v)
    formula = sa.heads(sa.softmax(Q @ K.T, axis=1) @ V[i], i, axis=1)
    q, key, v = random_rows(9, 13)
    values = np.stack([v, 2 * v, -v, v + 1])
    found = both([Q, K, V], formula, q, key, values)
    right = [by_hand(q * math.sqrt(5), key, value) for value in values]
    np.testing.assert_allclose(found, np.concatenate(right, axis=1), rtol=1e-11)


def test_a_bias_of_each_head_and_a_sum_over_heads() -> None:
    Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    B, W = sa.family("B", h, m, n), sa.family("W", h, d_v, d_v)
    weights = sa.softmax(Q @ K.T / sa.sqrt(d_k) + B[i].T, axis=1, mask=sa.keep())
    formula = sa.sum_over(weights @ V @ W[i], i)
    random = np.random.default_rng(0)
    q, key, v = random_rows(9, 13, 2)
    bias, out = random.normal(size=(4, 13, 9)), random.normal(size=(4, 3, 3))
    keep = random.random((2, 9, 13)) < 0.6
    found = both([Q, K, V, B, W], formula, q, key, v, bias, out, keep=keep)
    for at in range(2):
        right = sum(
            by_hand(
                q[at],
                key[at],
                v[at],
                lambda a, b, s, head=head: s + bias[head, b, a],
                lambda a, b, at=at: keep[at, a, b],
            )
            @ out[head]
            for head in range(4)
        )
        np.testing.assert_allclose(found[at], right, rtol=1e-11, atol=1e-13)


def test_two_indices_in_either_order() -> None:
    """Queries of each group and head, keys of each group, values of each head."""
    Q, K, V = sa.family("Q", (h, g), n, d_k), sa.family("K", g, m, d_k), sa.family("V", h, m, d_v)
    one = sa.softmax(Q[i, k] @ K[k].T, axis=1) @ V[i]
    random = np.random.default_rng(0)
    q, key, v = (random.normal(size=s) for s in ((2, 3, 9, 5), (3, 13, 5), (2, 13, 4)))
    right = np.array(
        [[by_hand(q[a, b] * math.sqrt(5), key[b], v[a]) for b in range(3)] for a in range(2)]
    )
    found = both([Q, K, V], sa.sum_over(sa.heads(one, k, axis=0), i), q, key, v)
    np.testing.assert_allclose(found, right.sum(axis=0).reshape(27, 4), rtol=1e-11)
    found = both([Q, K, V], sa.heads(sa.sum_over(one, i), k, axis=0), q, key, v)
    np.testing.assert_allclose(found, right.sum(axis=0).reshape(27, 4), rtol=1e-11)


def test_shared_keys_and_values_are_not_repeated() -> None:
    formula = sa.formula("grouped_query", layout="row")
    source = sa.lambdify(formula.inputs, formula, plan="blocked").source
    assert "repeat" not in source
    assert "np.broadcast_to" not in source


# Scores of pairs.


a = sa.dim("a")
W, U, v, b = sa.matrix("W", a, d_k), sa.matrix("U", a, d_k), sa.vector("v", a), sa.vector("b", a)
c = sa.scalar("c", positive=True)

PAIRS: list[Any] = [
    lambda q, k: v.T @ sa.tanh(W @ q + U @ k + b),
    lambda q, k: sa.tanh(W @ q - U @ k).T @ v / c,
    lambda q, k: v.T @ sa.hadamard(sa.sigmoid(W @ q), sa.tanh(U @ (q + k))) + k.T @ q,
    lambda q, k: c * k.T @ W.T @ U @ q,
    lambda q, k: sa.sqrt(q.T @ q) - sa.hadamard(k.T @ q, v.T @ b),
    lambda q, k: v.T @ sa.tanh(W @ sa.relu(U.T @ (W @ q + U @ k))),
]
NO_PAIRS: list[Any] = [
    lambda q, k: -(q - k).T @ (q - k) / c,
    lambda q, k: q.T @ k @ k.T @ q / c,
]


def of_pairs(score: Any) -> list[Any]:
    """The attention with a score of a pair in both layouts, for matrices with tokens in columns."""
    Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
    columns = V @ sa.softmax(sa.pairwise(score, Q, K), axis=0)
    rows = sa.softmax(sa.pairwise(score, Q.T, K.T, layout="row"), axis=1) @ V.T
    return [columns, rows]


@pytest.mark.parametrize("score", PAIRS)
def test_scores_of_pairs(score: Any) -> None:
    random = np.random.default_rng(0)
    shapes = {"Q": (5, 9), "K": (5, 13), "V": (3, 13), "W": (7, 5), "U": (7, 5), "v": 7, "b": 7}
    arrays = {name: random.normal(size=shape) / 2 for name, shape in shapes.items()}
    for formula in of_pairs(score):
        inputs = [*formula.inputs(), *formula.scalars()]
        both(inputs, formula, *(arrays.get(str(symbol), 2.0) for symbol in inputs))


@pytest.mark.parametrize("score", NO_PAIRS)
def test_scores_of_pairs_that_have_no_blocks(score: Any) -> None:
    for formula in of_pairs(score):
        f = sa.lambdify([*formula.inputs(), *formula.scalars()], formula)
        assert f.plan == "direct"
        assert "is not computed from each query and each key" in f.plan_reason


# Names.

TAKEN = [
    *("strip", "space", "at", "scores", "visible", "attend", "batch", "values", "queries", "keys"),
    *("run", "band", "spread", "weighted_sum", "strips_of", "diagonals", "workers", "np", "dtype"),
    *("i0", "i1", "a", "z", "s", "q", "k", "x", "r", "i", "j", "max", "part", "out", "head"),
]


@pytest.mark.parametrize("name", TAKEN)
def test_inputs_and_sizes_of_any_name(name: str) -> None:
    q, key, v = random_rows(9, 13)
    bias: dict[str, Any] = {
        "bias": lambda i, j: 0.5 * (i - j),
        "mask": sa.causal("top_left"),
        "layout": "row",
    }
    right = by_hand(q, key, v, lambda i, j, s: s + 0.5 * (i - j), lambda i, j: j <= i)
    d = sa.dim("d'")
    named = [
        (sa.matrix(name, n, d), sa.matrix("K", m, d), sa.matrix("V", m, d_v)),
        (sa.matrix("Q", n, d), sa.matrix(name, m, d), sa.matrix("V", m, d_v)),
        (sa.matrix("Q", n, d), sa.matrix("K", m, d), sa.matrix(name, m, d_v)),
        (sa.matrix("Q", name, d), sa.matrix("K", m, d), sa.matrix("V", m, d_v)),
        (sa.matrix("Q", n, name), sa.matrix("K", m, name), sa.matrix("V", m, d_v)),
    ]
    for inputs in cast(list[list[Any]], named):
        f = sa.lambdify(inputs, sa.attention(*inputs, **bias), plan="blocked")
        np.testing.assert_allclose(f(q, key, v), right, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("name", "tag"), [("band", "bandwidth"), ("both", "both2"), ("span", "s")])
def test_a_size_that_is_called_like_a_function_of_key_ranges(name: str, tag: str) -> None:
    Q, K, V = sa.matrix(name, n, d_k), sa.matrix("K", n, d_k), sa.matrix("V", n, d_v)
    mask = sa.window(sa.dim(tag)) & sa.prefix(sa.dim(f"{tag}_spans"))
    f = sa.lambdify([Q, K, V], sa.attention(Q, K, V, mask=mask, layout="row"), plan="blocked")
    q, key, v = random_rows(13, 13)
    right = by_hand(q, key, v, seen=lambda i, j: abs(i - j) < 3 and j < 7)
    found = f(q, key, v, **{tag: 3, f"{tag}_spans": 7})
    np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-13)


def test_lines_of_any_name() -> None:
    Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    lines: dict[str, Any] = {"strip": sa.tanh(Q), "run": sa.tanh(K), "keys": sa.tanh(V)}
    lines["scores"] = lines["strip"] @ lines["run"].T
    lines["weights"] = sa.softmax(lines["scores"], axis=1)
    lines["batch"] = lines["weights"] @ lines["keys"]
    lines["values"] = lines["batch"] + lines["strip"] @ lines["run"].T @ lines["keys"]
    q, key, v = random_rows(9, 13)
    both([Q, K, V], sa.Program(lines), q, key, v)
