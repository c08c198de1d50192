"""The generated NumPy functions compute what float64 loops over the entry formulas do."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import sympy
from sympy.printing.numpy import CuPyPrinter, NumPyPrinter

import symattn as sa
from symattn.nodes import InputMatrix
from tests import loops as by_hand

D_K, D_V, N, M = 4, 3, 5, 7  # pairwise different, so that no coincidence hides a fault
D_X, D_Y, D = 6, 8, 9

d_k, d_v, n, m, d_x, d_y = sa.dims("d_k d_v n m d_x d_y")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
QR, KR, VR = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
W = sa.matrix("W", d_k, d_k)
X, Y = sa.matrix("X", d_x, n), sa.matrix("Y", d_y, m)
WQ, WK, WV = sa.matrix("W^Q", d_k, d_x), sa.matrix("W^K", d_k, d_y), sa.matrix("W^V", d_v, d_y)
WKX, WVX = sa.matrix("W^K", d_k, d_x), sa.matrix("W^V", d_v, d_x)

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("each_plan")
Shape = tuple[int, ...]

Q_SHAPE, K_SHAPE, V_SHAPE, W_SHAPE = (D_K, N), (D_K, M), (D_V, M), (D_K, D_K)
COLUMN = V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0)
ROW = sa.softmax(QR @ KR.T / sa.sqrt(d_k), axis=1) @ VR


def in_rows(one: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *arrays: by_hand.rows(one, *arrays)


def row_shapes(*shapes: Shape) -> tuple[Shape, ...]:
    return tuple(shape[::-1] for shape in shapes)


FORMULAS = {
    "dot, column": (
        [Q, K, V],
        V @ sa.softmax(K.T @ Q, axis=0),
        by_hand.dot_product,
        (Q_SHAPE, K_SHAPE, V_SHAPE),
    ),
    "dot, row": (
        [QR, KR, VR],
        sa.softmax(QR @ KR.T, axis=1) @ VR,
        in_rows(by_hand.dot_product),
        row_shapes(Q_SHAPE, K_SHAPE, V_SHAPE),
    ),
    "scaled dot, column": (
        [Q, K, V],
        COLUMN,
        by_hand.scaled_dot_product,
        (Q_SHAPE, K_SHAPE, V_SHAPE),
    ),
    "scaled dot, row": (
        [QR, KR, VR],
        ROW,
        in_rows(by_hand.scaled_dot_product),
        row_shapes(Q_SHAPE, K_SHAPE, V_SHAPE),
    ),
    "general, column": (
        [Q, K, V, W],
        V @ sa.softmax(K.T @ W @ Q, axis=0),
        by_hand.luong_general,
        (Q_SHAPE, K_SHAPE, V_SHAPE, W_SHAPE),
    ),
    "general, row": (
        [QR, KR, VR, W],
        sa.softmax(QR @ W.T @ KR.T, axis=1) @ VR,
        lambda q, k, v, w: by_hand.luong_general(q.T, k.T, v.T, w).T,
        (*row_shapes(Q_SHAPE, K_SHAPE, V_SHAPE), W_SHAPE),
    ),
    "self-attention": (
        [X, WQ, WKX, WVX],
        WVX @ X @ sa.softmax((WKX @ X).T @ (WQ @ X), axis=0),
        by_hand.self_attention,
        ((D_X, N), (D_K, D_X), (D_K, D_X), (D_V, D_X)),
    ),
    "cross-attention": (
        [X, Y, WQ, WK, WV],
        (WV @ Y) @ sa.softmax((WK @ Y).T @ (WQ @ X), axis=0),
        by_hand.cross_attention,
        ((D_X, N), (D_Y, M), (D_K, D_X), (D_K, D_Y), (D_V, D_Y)),
    ),
}

# The batch of each input in turn, repeated as needed.
BATCHES = {
    "no batch": [()],
    "(3,)": [(3,)],
    "(2, 3)": [(2, 3)],
    "one without": [(2,), (), (2,)],
    "broadcast": [(3, 1), (1, 2), (2,)],
    "of one": [(1,), (2,)],
    "different ranks": [(2, 1, 2), (3, 1), ()],
}


def arrays_for(shapes: tuple[Shape, ...], batches: list[Shape], dtype: str) -> list[Array]:
    random = np.random.default_rng(len(shapes))
    return [
        random.normal(size=batches[k % len(batches)] + shape).astype(dtype)
        for k, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", FORMULAS)
def test_agrees_with_loops_in_float64(name: str, batch: str) -> None:
    inputs, expr, loops, shapes = FORMULAS[name]
    arrays = arrays_for(shapes, BATCHES[batch], "float64")
    found = sa.lambdify(inputs, expr)(*arrays)
    expected = by_hand.over_batches(loops, *arrays)
    assert found.shape == expected.shape
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 4e-3)])
@pytest.mark.parametrize("name", FORMULAS)
def test_agrees_with_loops_in_narrower_floats(name: str, dtype: str, tolerance: float) -> None:
    inputs, expr, loops, shapes = FORMULAS[name]
    # Weights of the size that keeps scores moderate, as models have them.
    arrays = [a * np.asarray(0.5, dtype) for a in arrays_for(shapes, [(3,)], dtype)]
    found = sa.lambdify(inputs, expr)(*arrays)
    assert found.dtype == dtype
    expected = by_hand.over_batches(loops, *arrays)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


CATALOGUE_LOOPS = {
    *("dot_product", "luong_general", "scaled_dot_product", "self_attention", "cross_attention"),
}


# The others, of vectors and scalars, run beside the tests of the catalogue itself.
OF_MATRICES = [
    name
    for name in sa.formulas()
    if not sa.formula(name).scalars
    and {tag.name for tag in sa.formula(name).dims}
    <= {"d", "d_k", "d_v", "d_x", "d_y", "n", "m", "w"}
    and all(type(symbol) is InputMatrix for symbol in sa.formula(name).inputs)
]


@pytest.mark.parametrize("layout", ["column", "row"])
@pytest.mark.parametrize("name", OF_MATRICES)
def test_the_catalogue_runs(name: str, layout: str) -> None:
    """Each entry by its own name; its numbers against the formula written by hand above."""
    formula = sa.formula(name, layout=layout)
    f = sa.lambdify(formula.inputs, formula)
    assert f"def {name}(" in f.source
    sizes = {"d_k": D_K, "d_v": D_V, "n": N, "m": M, "d_x": D_X, "d_y": D_Y, "d": D}
    shapes = tuple(tuple(s.value(sizes) for s in symbol.sizes) for symbol in formula.inputs)
    arrays = arrays_for(shapes, [(2,)], "float64")
    # Twins are transposed; W of luong_general is the same matrix in both layouts.
    columns = [
        a if layout == "column" or (name == "luong_general" and s.label == "W") else a.mT
        for a, s in zip(arrays, formula.inputs, strict=True)
    ]
    given = {mask.label: np.arange(M) != 2 for mask in formula.masks}
    given |= {"w": 2} if "w" in formula.expr.tags else {}
    loops = partial(by_hand.CATALOGUE[name], **given)
    expected = by_hand.over_batches(loops, *columns)
    expected = expected if layout == "column" else expected.mT
    np.testing.assert_allclose(f(*arrays, **given), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("batch", BATCHES)
def test_agrees_with_torch(batch: str) -> None:
    torch = pytest.importorskip("torch")
    shapes = row_shapes(Q_SHAPE, K_SHAPE, V_SHAPE)
    arrays = arrays_for(shapes, BATCHES[batch], "float64")
    expected = torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, arrays))
    found = sa.lambdify([QR, KR, VR], ROW)(*arrays)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-12, atol=1e-12)


# Numbers at the edge.


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_huge_scores_neither_overflow_nor_warn(dtype: str) -> None:
    f = sa.lambdify([Q, K, V], COLUMN)
    k = np.zeros((1, 3), dtype)
    k[0, 1] = 100
    v = np.asarray([[1, 2, 3]], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            assert f(np.full((1, 1), 100, dtype), k, v).tolist() == [[2.0]]
            assert f(np.full((1, 1), -100, dtype), k, v).tolist() == [[2.0]]  # keys 0 and 2
            assert f(np.full((1, 1), 10000, dtype), k[..., ::-1], v).tolist() == [[2.0]]


def test_no_keys_give_zeros() -> None:
    f = sa.lambdify([QR, KR, VR], ROW)
    found = f(np.ones((2, 4)), np.empty((0, 4)), np.empty((0, 3)))
    assert found.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert sa.lambdify([QR, KR], sa.softmax(QR @ KR.T, over=m))(
        np.ones((2, 4)), np.empty((0, 4))
    ).shape == (2, 0)
    P = sa.matrix("P", m, n)
    assert sa.lambdify([P], sa.softmax(P, axis=0))(np.empty((3, 0, 5))).shape == (3, 0, 5)


def test_no_queries_or_no_batch_give_nothing() -> None:
    f = sa.lambdify([QR, KR, VR], ROW)
    assert f(np.ones((0, 4)), np.ones((7, 4)), np.ones((7, 3))).shape == (0, 3)
    assert f(np.ones((0, 5, 4)), np.ones((7, 4)), np.ones((7, 3))).shape == (0, 5, 3)
    assert f(np.ones((5, 4)), np.ones((7, 4)), np.ones((7, 0))).shape == (5, 0)


def test_no_features_divide_by_zero_only_where_the_formula_divides() -> None:
    with pytest.raises(sa.SymattnError, match=r"√d_k.*divides by zero, with d_k = 0"):
        sa.lambdify([Q, K, V], COLUMN)(np.ones((0, 5)), np.ones((0, 7)), np.ones((3, 7)))
    f = sa.lambdify([Q, K, V], V @ sa.softmax(K.T @ Q, axis=0))
    v = np.arange(21.0).reshape(3, 7)
    found = f(np.ones((0, 5)), np.ones((0, 7)), v)
    np.testing.assert_allclose(found, v.mean(axis=1, keepdims=True) * np.ones((1, 5)))


def test_sums_of_float16_do_not_lose_digits() -> None:
    f = sa.lambdify([QR, KR, VR], ROW)
    zeros, ones = np.zeros((4096, 8), np.float16), np.ones((4096, 1), np.float16)
    found = f(zeros[:1], zeros, ones)
    assert found.dtype == np.float16
    assert found.tolist() == [[1.0]]


def test_constants_leave_the_dtype_alone() -> None:
    c = sa.scalar("c")
    expr = c * sa.tanh(Q / c) * (sa.sqrt(d_k) / 3) - 2 * Q + sa.exp(c) * sa.ones(d_k, n)
    f = sa.lambdify([Q, c], expr)
    q = np.arange(20, dtype=np.float32).reshape(4, 5) / 7
    for value in (2, 2.0, np.float64(2), np.float32(2), np.int64(2)):
        found = f(q, value)
        assert found.dtype == np.float32
        expected = [
            [2 * math.tanh(x / 2) * 2 / 3 - 2 * x + math.exp(2) for x in row] for row in q.tolist()
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_bias_is_repeated_along_the_batch_and_the_columns() -> None:
    b = sa.vector("b", d_k)
    f = sa.lambdify([Q, b], Q + b @ sa.ones(1, n))
    random = np.random.default_rng(0)
    q, bias = random.normal(size=(2, 4, 5)), random.normal(size=(3, 1, 4))
    found = f(q, bias)
    assert found.shape == (3, 2, 4, 5)
    for t, s, r, i in np.ndindex(found.shape):
        assert found[t, s, r, i] == q[s, r, i] + bias[t, 0, r]
    assert "ones" not in f.source  # arrays repeat by themselves
    alone = sa.lambdify([b], b @ sa.ones(1, 3))(np.array([1.0, 2.0]))
    assert alone.tolist() == [[1.0] * 3, [2.0] * 3]
    both = sa.lambdify([b], b @ sa.ones(1, 2) + b @ sa.ones(1, 2))(np.array([1.0, 2.0]))
    assert both.tolist() == [[2.0] * 2, [4.0] * 2]


def test_a_vector_has_one_axis_and_its_results_two() -> None:
    k = sa.vector("k", d_k)
    f = sa.lambdify([Q, k], Q.T @ k)
    q = np.arange(20.0).reshape(4, 5)
    assert f(q, np.array([1.0, 0, 0, 1])).tolist() == [[15.0], [17], [19], [21], [23]]
    assert f(q, np.ones((6, 4))).shape == (6, 5, 1)
    column = sa.matrix("k", d_k, 1)
    g = sa.lambdify([Q, column], Q.T @ column)
    assert g(q, np.ones((6, 4, 1))).shape == (6, 5, 1)


def test_what_is_no_number_stays_where_it_belongs() -> None:
    f = sa.lambdify([Q, K, V], COLUMN)
    q, k, v = arrays_for((Q_SHAPE, K_SHAPE, V_SHAPE), [()], "float64")
    expected = f(q, k, v)
    q[1, 2], v[0, 3] = np.nan, np.inf
    found = f(q, k, v)
    assert np.isnan(found[:, 2]).all()
    others = [0, 1, 3, 4]
    assert np.isinf(found[0, others]).all()
    np.testing.assert_allclose(found[1:, others], expected[1:, others], rtol=1e-12, atol=1e-13)


# Plain SymPy.


def test_plain_sympy_lambdify_agrees() -> None:
    f = sympy.lambdify([Q, K, V], COLUMN, "numpy")
    arrays = arrays_for((Q_SHAPE, K_SHAPE, V_SHAPE), [(2,)], "float64")
    expected = by_hand.over_batches(by_hand.scaled_dot_product, *arrays)
    np.testing.assert_allclose(f(*arrays), expected, rtol=1e-12, atol=1e-12)
    c = sa.scalar("c")
    g = sympy.lambdify([Q, c], c * sa.tanh(Q / c) + sa.exp(c) * Q, "numpy")
    expected = [3 * math.tanh(x / 3) + math.exp(3) * x for x in arrays[0].flat]
    np.testing.assert_allclose(g(arrays[0], 3).ravel(), expected, rtol=1e-12, atol=1e-13)


def test_no_keys_give_zeros_in_plain_sympy_too() -> None:
    f = sympy.lambdify([Q, K, V], COLUMN, "numpy")
    found = f(np.ones((2, D_K, N)), np.ones((2, D_K, 0)), np.ones((2, D_V, 0)))
    np.testing.assert_array_equal(found, np.zeros((2, D_V, N)))
    g = sympy.lambdify([QR, KR, VR], ROW, "numpy")
    assert (
        g(np.ones((2, D_K)), np.empty((0, D_K)), np.empty((0, D_V))).tolist() == [[0.0] * D_V] * 2
    )


def test_plain_sympy_lambdify_writes_cupy_source() -> None:
    cupy = str(CuPyPrinter().doprint(COLUMN))
    assert "cupy.exp(" in cupy
    assert "numpy" not in cupy
    assert NumPyPrinter().doprint(COLUMN) == cupy.replace("cupy", "numpy")


def test_scores_far_apart_and_infinities_give_no_warning() -> None:
    S = sa.matrix("S", *sa.dims("m n"))
    f = sa.lambdify([S], sa.softmax(S, axis=0))
    np.testing.assert_array_equal(f(np.array([[1e308], [-1e308]])), [[1.0], [0.0]])
    weights = f(np.array([[np.inf, 1.0], [0.0, 1.0]]))
    assert np.isnan(weights[:, 0]).all()
    np.testing.assert_array_equal(weights[:, 1], [0.5, 0.5])
