"""Biases by position that are linear in matrices of one entry, against float64 loops by hand."""

from collections.abc import Callable
from math import exp, sqrt
from typing import Any

import numpy as np
import pytest

import symattn as sa

pytestmark = pytest.mark.usefixtures("each_plan")

h, n, m, d_k, d_v = sa.dims("h n m d_k d_v")
H, N, M, D_K, D_V = 2, 5, 7, 4, 3
i = sa.index("i", h)
slope, shift = sa.family("slope", h, 1, 1), sa.family("shift", h, 1, 1)
c = sa.scalar("c", positive=True)
FAMILIES = {
    "row": (sa.family("Q", h, n, d_k), sa.family("K", h, m, d_k), sa.family("V", h, m, d_v)),
    "column": (sa.family("Q", h, d_k, n), sa.family("K", h, d_k, m), sa.family("V", h, d_v, m)),
}

Bias = Callable[[Any, Any], Any]
Number = Callable[[int, int, float, float, float], float]

BIASES: dict[str, tuple[Bias, Number]] = {
    "slopes": (lambda a, b: -slope[i] * (a - b), lambda a, b, s, t, c: -s * (a - b)),
    "alone": (lambda a, b: shift[i], lambda a, b, s, t, c: t),
    "sums": (
        lambda a, b: slope[i] * (b - a) + c * shift[i] / (1 + a) - slope[i] * (a - b) ** 2 / 9,
        lambda a, b, s, t, c: s * (b - a) + c * t / (1 + a) - s * (a - b) ** 2 / 9,
    ),
    "products": (
        lambda a, b: (slope[i] @ shift[i].T) * (a - 2 * b) / 3 + slope[i],
        lambda a, b, s, t, c: s * t * (a - 2 * b) / 3 + s,
    ),
    "sums in products": (
        lambda a, b: sa.hadamard(slope[i] * a + shift[i], sa.ones(1, 1) * (b + 1)),
        lambda a, b, s, t, c: (s * a + t) * (b + 1),
    ),
    "what is left of a difference": (
        lambda a, b: slope[i] * a + shift[i] - slope[i] * a,
        lambda a, b, s, t, c: t,
    ),
    "absolute differences": (
        lambda a, b: -slope[i] * abs(a - b) + sa.abs(shift[i]) * abs(a - 2),
        lambda a, b, s, t, c: -s * abs(a - b) + abs(t) * abs(a - 2),
    ),
    "roots of squares": (
        lambda a, b: slope[i] * sa.sqrt((b - a) ** 2),
        lambda a, b, s, t, c: s * abs(a - b),
    ),
    "a function of one": (
        lambda a, b: sa.tanh(slope[i]) * (a - b),
        lambda a, b, s, t, c: np.tanh(s) * (a - b),
    ),
}


def arrays() -> list[Any]:
    random = np.random.default_rng(0)
    return [random.normal(size=s) for s in ((H, N, D_K), (H, M, D_K), (H, M, D_V), (H,), (H,))]


def by_hand(bias: Number, q: Any, k: Any, v: Any, s: Any, t: Any) -> Any:
    out = np.zeros((H, N, D_V))
    for head in range(H):
        for a in range(N):
            weights = []
            for b in range(M):
                score = sum(q[head, a, x] * k[head, b, x] for x in range(D_K)) / sqrt(D_K)
                weights.append(exp(score + bias(a, b, s[head], t[head], 0.75)))
            for b in range(M):
                out[head, a] += weights[b] / sum(weights) * v[head, b]
    return out


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("name", BIASES)
def test_a_bias_of_every_head(name: str, layout: str) -> None:
    bias, number = BIASES[name]
    Q, K, V = FAMILIES[layout]
    formula = sa.heads(sa.attention(Q[i], K[i], V[i], bias=bias), i, axis=int(layout == "row"))
    q, k, v, s, t = arrays()
    wanted = by_hand(number, q, k, v, s, t)
    given = [x if layout == "row" else x.swapaxes(-1, -2) for x in (q, k, v)]
    used = {source.label for source in formula.inputs()}
    scalars = [c] if formula.scalars() else []
    families = [f for f in (slope, shift) if f.label in used]
    numbers = [x[:, None, None] for f, x in ((slope, s), (shift, t)) if f.label in used]
    found = sa.lambdify([Q, K, V, *families, *scalars], formula)(
        *given, *numbers, *(0.75 for _ in scalars)
    )
    side_by_side = np.concatenate(list(wanted), axis=1)
    rows = found if layout == "row" else found.T
    np.testing.assert_allclose(rows, side_by_side, rtol=1e-12)


@pytest.mark.parametrize("layout", ["row", "column"])
def test_the_distance_of_two_positions(layout: str) -> None:
    """One head, whose bias is a function of j - i: its sign is not that of a position."""
    Q, K, V = (sa.matrix(one.label, *one.shape[1:]) for one in FAMILIES[layout])
    formula = sa.attention(Q, K, V, bias=lambda a, b: -c * abs(a - b))
    q, k, v, s, t = arrays()
    wanted = by_hand(lambda a, b, s, t, c: -c * abs(a - b), q, k, v, s, t)
    given = [x if layout == "row" else x.swapaxes(-1, -2) for x in (q, k, v)]
    found = sa.lambdify([Q, K, V, c], formula)(*given, 0.75)
    np.testing.assert_allclose(found if layout == "row" else found.swapaxes(1, 2), wanted)


def test_a_distance_is_printed_with_bars() -> None:
    formula = sa.positional(lambda a, b: -c * abs(a - b), n, m)
    assert sa.text(formula) == "[-c |i - j|]_{j,i}"
    assert sa.latex(formula) == r"[-c \left|i - j\right|]_{j,i}"
    assert sa.prove(formula, sa.positional(lambda a, b: -c * abs(b - a), n, m)).verdict == "proved"
    assert sa.prove(formula, sa.positional(lambda a, b: -c * (a - b), n, m)).verdict == "refuted"


def test_a_function_of_numpy_is_refused_with_ours() -> None:
    Q, K, V = (sa.matrix(one.label, *one.shape[1:]) for one in FAMILIES["row"])
    with pytest.raises(sa.OperationRefusedError, match=r"write sa\.tanh\("):
        sa.attention(Q, K, V, score=lambda q, k: np.tanh(k.T @ q))  # type: ignore[call-overload]
    with pytest.raises(sa.OperationRefusedError, match=r"sa\.exp\(i - j\)"):
        sa.attention(Q, K, V, bias=lambda a, b: np.exp(a - b))  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="what the bias itself raises"):
        sa.attention(Q, K, V, bias=_raises)


def _raises(_a: Any, _b: Any) -> Any:
    raise TypeError("what the bias itself raises")


def test_blocks_take_such_a_bias() -> None:
    Q, K, V = FAMILIES["row"]
    each = sa.attention(Q[i], K[i], V[i], bias=lambda a, b: -slope[i] * (a - b))
    assert sa.lambdify([Q, K, V, slope], sa.heads(each, i, axis=1), plan="blocked").plan


def test_a_learned_matrix_of_one_entry_is_proved_to_be_the_scalar_that_it_is() -> None:
    """What is built by itself and what is written by hand are the same formula."""
    b = sa.matrix("b", 1, 1)
    found = sa.positional(lambda i, j: (i - j) * b, n, m)
    plain = sa.positional(lambda i, j: i - j, n, m)
    by_hand = sa.hadamard(sa.ones(m, 1) @ b @ sa.ones(1, n), plain)
    assert sa.prove(found, by_hand).verdict == "proved"
    assert sa.prove(found, plain).verdict == "refuted"


@pytest.mark.parametrize(
    ("bias", "what"),
    [
        (lambda a, b: sa.tanh(slope[i] * (a - b)), "is a sum"),
        (lambda a, b: (slope[i] * a) @ sa.ones(1, n) @ sa.ones(n, 1), "is a sum"),
        (lambda a, b: FAMILIES["row"][0][i] * (a - b), "a matrix of n rows and d_k columns"),
    ],
)
def test_what_is_not_linear_is_refused(bias: Bias, what: str) -> None:
    with pytest.raises((sa.OperationRefusedError, sa.NotAnOperandError), match=what):
        sa.positional(bias, n, m)


@pytest.mark.parametrize("layout", ["row", "column"])
def test_an_array_of_biases_is_refused_with_the_matrix_to_write(layout: str) -> None:
    sizes = "n, m" if layout == "row" else "m, n"
    with pytest.raises(sa.NotAnOperandError, match=rf'bias=sa.matrix\("B", {sizes}\)'):
        sa.positional(np.ones((N, M)), n, m, layout=layout)


SCORES: dict[str, Callable[[Any, Any], Any]] = {
    "before": lambda q, k: slope[i] * (k.T @ q),
    "after": lambda q, k: (k.T @ q) * slope[i],
    "with the query": lambda q, k: k.T @ (q @ slope[i]),
    "in and around a function": lambda q, k: slope[i] * sa.tanh(k.T @ q * slope[i] / sa.sqrt(d_k)),
}


@pytest.mark.parametrize("layout", FAMILIES)
@pytest.mark.parametrize("name", SCORES)
def test_scores_times_a_number_of_each_head(name: str, layout: str) -> None:
    Q, K, V = FAMILIES[layout]
    one = sa.attention(Q[i], K[i], V[i], score=SCORES[name], layout=layout)
    formula = sa.heads(one, i, axis=1 if layout == "row" else 0)
    f = sa.lambdify([Q, K, V, slope], formula)
    assert set(f.sources) == {"direct", "blocked"}
    random = np.random.default_rng(3)
    q, k, v = (random.normal(size=(H, *size)) for size in ((N, D_K), (M, D_K), (M, D_V)))
    slopes = random.normal(size=(H, 1, 1))
    expected = np.zeros((H, N, D_V))
    for head in range(H):
        t = float(slopes[head, 0, 0])
        for a in range(N):
            scores = [sum(q[head, a, x] * k[head, b, x] for x in range(D_K)) * t for b in range(M)]
            if name == "in and around a function":
                scores = [t * np.tanh(s / sqrt(D_K)) for s in scores]
            weights = [exp(s - max(scores)) for s in scores]
            for b in range(M):
                expected[head, a] += weights[b] / sum(weights) * v[head, b]
    turn = (lambda x: x) if layout == "row" else (lambda x: x.swapaxes(-1, -2))
    found = f(*map(turn, (q, k, v)), slopes)
    whole = np.concatenate(expected, axis=1)
    np.testing.assert_allclose(found, whole if layout == "row" else whole.T, rtol=1e-10, atol=1e-13)
