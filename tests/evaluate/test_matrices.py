"""The independent evaluator against NumPy's float64, one case for every operation."""

import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy

import symattn.nodes as sa
from symattn.errors import OperationRefusedError, SizeError
from symattn.evaluate import UndefinedPointError, evaluate
from symattn.evaluate.arithmetic import arbitrary_function, exact
from symattn.evaluate.matrices import RULES, Point, Values
from symattn.meaning.functions import FUNCTIONS
from symattn.nodes.core import Node

d, m, n = sa.dims("d m n")
SIZES = {"d": 3, "m": 4, "n": 2}
A, B, C = sa.matrix("A", m, n), sa.matrix("B", m, n), sa.matrix("C", n, d)
W, v = sa.matrix("W", n, n), sa.vector("v", n)
c: Any = sa.scalar("c")  # SymPy's types know only its own products
tau: Any = sa.scalar("tau", positive=True)
F, G, i, j = (
    sa.family("F", d, m, n),
    sa.family("G", (n, d), d, m),
    sa.index("i", d),
    sa.index("j", n),
)
SCALARS = {"c": Fraction(-3, 7), "tau": Fraction(5, 3)}

rng = np.random.default_rng(5)
ARRAYS: dict[Any, np.ndarray] = {
    symbol: rng.normal(size=[size.value(SIZES) for size in symbol.sizes])
    for symbol in (A, B, C, W, v, F, G)
}
a, b, w, f, g = (ARRAYS[symbol] for symbol in (A, B, W, F, G))
INDICES = {i: 2, j: 1}


def normalised(x: np.ndarray, axis: int) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


CASES: list[tuple[Any, np.ndarray]] = [
    (A, a),
    (v, ARRAYS[v]),
    (A @ C, a @ ARRAYS[C]),
    (A * 2 @ (W @ C), 2 * (a @ (w @ ARRAYS[C]))),
    (A * c * tau, a * (-3 / 7) * (5 / 3)),
    (A.T, a.T),
    (A + B - A * 2, a + b - 2 * a),
    (-A, -a),
    (A / sa.sqrt(d), a / np.sqrt(3)),
    (A / (c + tau) / n, a / (5 / 3 - 3 / 7) / 2),
    (sa.hadamard(A, B, B), a * b * b),
    (sa.ones(m, n), np.ones((4, 2))),
    (sa.identity(n) @ W, w),
    (sa.identity(2 * n + 1), np.eye(5)),
    (v @ sa.ones(1, n), np.repeat(ARRAYS[v], 2, axis=1)),
    (sa.softmax(A, axis=0), normalised(a, 0)),
    (sa.softmax(A, axis=1), normalised(a, 1)),
    (sa.max(A, axis=0), a.max(axis=0)[None, :]),
    (sa.concat(A, B, axis=1), np.hstack([a, b])),
    (sa.concat(A, C.T @ sa.ones(n, n), axis=0), np.vstack([a, ARRAYS[C].T @ np.ones((2, 2))])),
    (
        sa.pairwise(
            lambda q, k: v.T @ sa.tanh(W @ q + 2 * C @ k), A.T, sa.identity(d), layout="column"
        ),
        np.array(
            [
                [ARRAYS[v][:, 0] @ np.tanh(w @ query + 2 * ARRAYS[C] @ key) for query in a]
                for key in np.eye(3)
            ]
        ),
    ),
    (
        sa.positional(lambda i, j: c * i - j / n, n, m, layout="row"),
        np.array([[-3 / 7 * i - j / 2 for j in range(4)] for i in range(2)]),
    ),
    (sa.max(A, axis=1), a.max(axis=1)[:, None]),
    (
        sa.indicator(sa.causal("top_left"), *A.shape, axis=1),
        np.tri(*a.shape),
    ),
    (
        sa.softmax((A + sa.additive_mask(~sa.prefix(1), *A.shape, axis=0)) / 2, axis=0),
        np.vstack([np.zeros((1, a.shape[1])), normalised(a[1:] / 2, 0)]),
    ),
    (F[i], f[2]),
    (G[j, i] @ F[i], g[1, 2] @ f[2]),
    (sa.heads(F[i], i, axis=0), f.reshape(12, 2)),
    (sa.heads(F[i] @ W, i, axis=1), np.hstack([f[0] @ w, f[1] @ w, f[2] @ w])),
    (sa.heads(A, i, axis=1), np.hstack([a, a, a])),
    (
        sa.heads(sa.heads(G[j, i], i, axis=0), j, axis=1),
        np.hstack([np.vstack([g[0, 0], g[0, 1], g[0, 2]]), np.vstack([g[1, 0], g[1, 1], g[1, 2]])]),
    ),
    (sa.sum_over(F[i], i), f[0] + f[1] + f[2]),
    (sa.sum_over(A, i) + F[i], 3 * a + f[2]),
    (sa.sum_over(sa.hadamard(F[i], sa.sum_over(F[i], i)), i), (f[0] + f[1] + f[2]) ** 2),
    (sa.head(sa.identity(n * d), i, axis=0), np.eye(6)[4:6]),
    (sa.head(sa.identity(n * d), j, axis=1), np.eye(6)[:, 3:6]),
    (
        sa.heads(sa.head(sa.identity(n * d), i, axis=1), i, axis=0),
        np.vstack(np.split(np.eye(6), 3, 1)),
    ),
    (
        sa.pairwise(
            lambda q, k: sa.sum_over(q.T @ F[i].T @ F[i] @ k, i) + q.T @ F[i].T @ F[i] @ q, W, W
        ),
        np.einsum("xi,hrx,hry,yj->ji", w, f, f, w)
        + np.einsum("xi,rx,ry,yi->i", w, f[2], f[2], w)[None, :],
    ),
    (sa.reshape(A, 2, m * n // 2), a.reshape(2, 4)),
    (sa.reshape(F[i], n, m), f[2].reshape(2, 4)),
]
FUNCTION_CASES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "relu": lambda x: np.where(x > 0, x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "sqrt": np.sqrt,
    "square": lambda x: x**2,
    "reciprocal": lambda x: 1 / x,
}


def floats(matrix: np.ndarray) -> np.ndarray:
    return matrix.astype(float)


@pytest.mark.parametrize(("node", "expected"), CASES, ids=lambda case: str(case)[:30])
def test_every_operation_is_what_numpy_computes(node: Node, expected: np.ndarray) -> None:
    values = evaluate(node, SIZES, ARRAYS, SCALARS, indices=INDICES)
    assert values.shape == expected.shape
    np.testing.assert_allclose(floats(values), expected, rtol=1e-13, atol=1e-15)


def test_a_part_is_read_at_the_value_of_its_own_index() -> None:
    """An index that is bound within has nothing to do with one of its name outside."""
    total = sa.sum_over(F[i], i)
    both = sa.sum_over(sa.hadamard(F[i], total), i) - sa.hadamard(total, F[i])
    for value in range(3):
        values = evaluate(both, SIZES, ARRAYS, indices={i: value})
        np.testing.assert_allclose(
            floats(values), f.sum(0) ** 2 - f.sum(0) * f[value], rtol=1e-13, atol=1e-13
        )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_what_numpy_computes(name: str) -> None:
    inside = sa.square(A) if FUNCTIONS[name].domain else A
    expected = FUNCTION_CASES[name](a**2 if FUNCTIONS[name].domain else a)
    values = evaluate(sa.function(name)(inside), SIZES, ARRAYS)
    np.testing.assert_allclose(floats(values), expected, rtol=1e-12, atol=1e-13)


def concrete_nodes(base: type) -> set[type]:
    """The classes of nodes that a formula can hold: those that no other class of ours refines."""
    found: set[type] = set()
    for cls in base.__subclasses__():
        found |= {cls, *concrete_nodes(cls)}
    # What the code generator puts into a program is no operation that a person writes.
    found = {cls for cls in found if cls.__module__.startswith("symattn.nodes")}
    return {cls for cls in found if not cls.__name__.startswith("_")}


def test_every_operation_has_a_rule_and_a_case() -> None:
    assert set(RULES) == concrete_nodes(Node)
    used = {type(part) for node, _ in CASES for part in node.walk()}
    assert used | {sa.Elementwise, sa.BoundVector} == set(RULES)


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        (sympy.Rational(2, 7), 2 / 7),
        (sympy.Float("0.125"), 0.125),
        (sympy.E, np.e),
        (sympy.sqrt(tau), (5 / 3) ** 0.5),
        (1 / d**2, 1 / 9),
        (sympy.exp(c), np.exp(-3 / 7)),
        (sympy.log(tau), np.log(5 / 3)),
        (sympy.tanh(c), np.tanh(-3 / 7)),
        (sympy.sin(c) + sympy.cos(tau), np.sin(-3 / 7) + np.cos(5 / 3)),
        (n * (d - 4 * c), 2 * (3 + 12 / 7)),
    ],
    ids=str,
)
def test_every_kind_of_scalar(scalar: Any, expected: float) -> None:
    values = evaluate(scalar * sa.ones(d, n), SIZES, {}, SCALARS)
    np.testing.assert_allclose(floats(values), np.full((3, 2), expected), rtol=1e-14, atol=1e-13)


def test_it_has_the_digits_that_were_asked_for() -> None:
    third = evaluate(sa.ones(1, 1) / 3, {}, {}, digits=80)[0, 0]
    assert str(third) == "0." + "3" * 80


def test_the_precision_that_a_user_has_set_is_left_alone() -> None:
    before = mpmath.mp.dps
    mpmath.mp.dps = 7
    try:
        value = evaluate(sa.tanh(A), SIZES, ARRAYS)[0, 0]
        assert mpmath.mp.dps == 7
        assert len(str(value)) > 45
    finally:
        mpmath.mp.dps = before


def test_every_thread_has_its_own_arithmetic() -> None:
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(exact(50)))
    thread.start()
    thread.join()
    assert exact(50) is exact(50)
    assert seen[0] is not exact(50)


@pytest.mark.parametrize(
    "node",
    [
        sa.reciprocal(A - A),
        sa.log(A - A),
        sa.log(-sa.exp(A)),
        sa.sqrt(-sa.exp(A)),
        sa.exp(sa.exp(sa.exp(sa.exp(3 * sa.ones(n, n))))),
        A / (n - 2),
        A * sa.sqrt(c),
        A * sympy.log(c),
    ],
    ids=str,
)
def test_where_a_formula_has_no_value_the_point_is_undefined(node: Node) -> None:
    with pytest.raises(UndefinedPointError, match="undefined at this point"):
        evaluate(node, SIZES, ARRAYS, SCALARS)


def test_large_logits_are_no_problem() -> None:
    S = sa.matrix("S", n, 1)
    values = evaluate(sa.softmax(S, axis=0), SIZES, {S: [[10**6], [10**6 + 1]]})
    np.testing.assert_allclose(floats(values)[1, 0], 1 / (1 + np.exp(-1)), rtol=1e-14, atol=1e-13)


def test_a_shared_part_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Node] = []
    original = RULES[sa.Softmax]

    def counted(node: Node, values: Values, point: Point) -> np.ndarray:
        calls.append(node)
        return original(node, values, point)

    monkeypatch.setitem(RULES, sa.Softmax, counted)
    P = sa.softmax(A, axis=0)
    evaluate(sa.hadamard(P, P) + P, SIZES, ARRAYS)
    assert len(calls) == 1


def test_thousands_of_terms_and_factors_do_not_recurse() -> None:
    total = sa.MatrixSum(*[W] * 2000)
    product = sa.MatrixProduct(W, *[sa.identity(n)] * 2000)
    np.testing.assert_allclose(
        floats(evaluate(total, SIZES, ARRAYS)), 2000 * w, rtol=1e-13, atol=1e-13
    )
    np.testing.assert_allclose(floats(evaluate(product, SIZES, ARRAYS)), w, rtol=1e-13, atol=1e-13)


def test_a_function_known_by_name_is_always_the_same_and_has_no_symmetry() -> None:
    number = exact(30)
    phi, psi = arbitrary_function("phi"), arbitrary_function("psi")
    x = number.mpf(1) / 3
    assert phi(number, x) == arbitrary_function("phi")(number, x)
    assert phi(number, x) != psi(number, x)
    assert abs(phi(number, x)) != abs(phi(number, -x))
    assert min(phi(number, k) for k in range(-4, 1)) < 0 < phi(number, 4)


def test_a_vector_may_be_one_row_of_numbers() -> None:
    flat = evaluate(v, SIZES, {v: [Fraction(1, 2), 3]})
    assert floats(flat).tolist() == [[0.5], [3.0]]


@pytest.mark.parametrize("rows", [[[1, 2]], [[1, 2], [3]], np.ones((2, 4)), []], ids=str)
def test_inputs_of_other_sizes_are_refused(rows: object) -> None:
    with pytest.raises(SizeError, match="A ∈ M"):
        evaluate(A, SIZES, {A: rows})


@pytest.mark.parametrize("at", [None, {}, {"i": 3}, {"i": -1}, {"k": 0}], ids=str)
def test_every_free_index_needs_a_value_within_its_size(at: dict[str, int] | None) -> None:
    h = sa.dim("h")
    W = sa.family("W", h, 2, 2)
    indices = None if at is None else {sa.index(name, h): value for name, value in at.items()}
    given: Any = {W: np.arange(12).reshape(3, 2, 2)}
    with pytest.raises(OperationRefusedError, match="give its value, from 0 to 2"):
        evaluate(W[sa.index("i", h)], {"h": 3}, given, indices=indices)
    last = evaluate(W[sa.index("i", h)], {"h": 3}, given, indices={sa.index("i", h): 2})
    assert floats(last).tolist() == [[8.0, 9.0], [10.0, 11.0]]
