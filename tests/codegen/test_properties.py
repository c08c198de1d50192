"""Random formulas on random arrays: the right numbers, any batch, any strides, inputs intact."""

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings, strategies as st

import symattn as sa
from symattn.errors import NotSupportedError, ScalarError
from symattn.evaluate import (
    UndefinedPointError,
    evaluate,
    random_inputs,
    random_scalars,
    random_sizes,
    sizes_in,
)
from symattn.nodes.core import NamedInput, Node
from symattn.tags import Relations
from tests.strategies import expressions

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("each_plan")

drawing = settings(
    max_examples=80,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

d_k, d_v, n, m = sa.dims("d_k d_v n m")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
ATTENTION = V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0)


def run(f: Any, arguments: list[Any], sizes: dict[str, int]) -> Array:
    """Call with every size by name; what overflows or is undefined shows as no finite number."""
    with np.errstate(all="ignore"):
        return f(*arguments, **sizes)


@drawing
@given(expressions(4), st.integers(0, 10**6))
def test_random_formulas_agree_with_the_evaluator(node: Node, seed: int) -> None:
    rng = Random(seed)
    sizes = random_sizes(sizes_in([node]), Relations(), rng, least=1)
    inputs = random_inputs(node.inputs(), sizes, rng)
    scalars = random_scalars(node.scalars(), rng)
    try:
        f = sa.lambdify([*node.inputs(), *node.scalars()], node)
        exact = evaluate(node, sizes, inputs, scalars)
    except (UndefinedPointError, NotSupportedError):
        assume(False)
        return
    note(f.source)
    expected = np.array(exact, dtype=np.float64)
    assume(np.all(np.abs(expected) < 1e8))
    arrays = [
        np.array(inputs[symbol], dtype=np.float64).reshape(f_shape(symbol, sizes))
        for symbol in node.inputs()
    ]
    numbers = [scalars[symbol.name] for symbol in node.scalars()]
    known = {tag: sizes[tag] for tag in node.tags}
    before = [array.copy() for array in arrays]
    found = run(f, [*arrays, *numbers], known)
    assert found.shape == expected.shape
    assert found.dtype == np.float64
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    # What rounding can do to it is less than what a change of the inputs by 1e-9 does.
    moved = run(f, [*(array * (1 + 1e-9) for array in arrays), *numbers], known)
    tolerance = 1e-9 * (1 + np.abs(expected)) + np.abs(moved - found)
    assume(np.all(np.isfinite(tolerance)))
    assert np.all(np.abs(found - expected) <= tolerance)


def f_shape(symbol: NamedInput, sizes: dict[str, int]) -> tuple[int, ...]:
    """The axes that the array of an input has: one for a vector, three for a family."""
    axes = tuple(size.value(sizes) for size in symbol.sizes)
    return axes[:1] if type(symbol).__name__ == "InputVector" else axes


BATCHES = st.sampled_from([(), (), (1,), (2,), (3, 1), (3, 2), (1, 2)])


@drawing
@given(expressions(4), st.integers(0, 10**6), st.data())
def test_a_batch_is_the_function_of_each_element(node: Node, seed: int, data: Any) -> None:
    sizes: dict[str, int] = {"n": 2, "m": 3, "d_k": 4, "d_v": 5, "h": 6}
    known = {tag: sizes[tag] for tag in node.tags}
    numbers = [Random(seed).uniform(0.5, 2) for _ in node.scalars()]
    try:
        f = sa.lambdify([*node.inputs(), *node.scalars()], node)
    except NotSupportedError:
        assume(False)
        return
    note(f.source)
    random = np.random.default_rng(seed)
    shapes = [f_shape(symbol, sizes) for symbol in node.inputs()]
    batches = [data.draw(BATCHES) for _ in shapes]
    arrays = [random.normal(size=b + s) for b, s in zip(batches, shapes, strict=True)]
    before = [array.copy() for array in arrays]
    try:
        found = run(f, [*arrays, *numbers], known)
    except ScalarError:
        assume(False)
        return
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    batch = np.broadcast_shapes(*batches)
    rows, columns = (size.value(sizes) for size in node.sizes)
    assert found.shape == (*batch, rows, columns)
    for at in itertools.product(*map(range, batch)):
        element = [
            np.broadcast_to(array, batch + shape)[at]
            for array, shape in zip(arrays, shapes, strict=True)
        ]
        np.testing.assert_allclose(
            found[at], run(f, [*element, *numbers], known), rtol=1e-6, atol=1e-9
        )


def laid_out(array: Array, layout: str) -> Array:
    """The same numbers in another order of memory."""
    match layout:
        case "Fortran order":
            return np.asfortranarray(array)
        case "every second":
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        case "backwards":
            return np.ascontiguousarray(array[..., ::-1, ::-1])[..., ::-1, ::-1]
        case "a transposed view":
            return np.ascontiguousarray(array.mT).mT
        case "in the middle":
            padded = np.full([size + 2 for size in array.shape], np.nan, array.dtype)
            inside = padded[tuple(slice(1, -1) for _ in array.shape)]
            inside[...] = array
            return inside
        case _:
            return array


LAYOUTS = st.sampled_from(
    ["as it is", "Fortran order", "every second", "backwards", "a transposed view", "in the middle"]
)


@drawing
@given(
    st.lists(LAYOUTS, min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.sampled_from(["float64", "float32", "float16"]),
    st.integers(0, 10**6),
)
def test_any_layout_of_memory(
    layouts: list[str], read_only: list[bool], dtype: str, seed: int
) -> None:
    f = sa.lambdify([Q, K, V], ATTENTION)
    random = np.random.default_rng(seed)
    shapes = ((2, 4, 5), (2, 4, 7), (2, 3, 7))
    plain = [random.normal(size=shape).astype(dtype) for shape in shapes]
    arrays = [laid_out(array, layout) for array, layout in zip(plain, layouts, strict=True)]
    for array, fixed in zip(arrays, read_only, strict=True):
        array.flags.writeable = not fixed
    found = f(*arrays)
    for array, copy in zip(arrays, plain, strict=True):
        np.testing.assert_array_equal(array, copy)
    tolerance = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3}[dtype]
    np.testing.assert_allclose(found, f(*plain), rtol=tolerance, atol=tolerance)


def test_broadcast_arrays() -> None:
    f = sa.lambdify([Q, K, V], ATTENTION)
    random = np.random.default_rng(3)
    q, k, v = (random.normal(size=shape) for shape in ((6, 4, 5), (4, 7), (3, 7)))
    wide = [np.broadcast_to(k, (6, 4, 7)), np.broadcast_to(v, (6, 3, 7))]
    np.testing.assert_allclose(f(q, *wide), f(q, k, v), rtol=1e-13, atol=1e-13)


def test_strided_views_of_one_array() -> None:
    """Backwards and every second column; the right value was computed by mpmath at 40 digits."""
    x = np.array([[2.0, 1.0, 0.0, -1.0], [-1.0, -2.0, -2.0, -2.0], [-2.0, 2.0, 1.0, 2.0]])
    rows = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    f = sa.lambdify(rows, sa.softmax(rows[0] @ rows[1].T / sa.sqrt(d_k), axis=1) @ rows[2])
    expected = [
        [1.9716245280672469, -0.004053638847536149],
        [-0.9997252056160818, -1.9985874366524443],
        [-1.9812969573377512, 0.9885521332708896],
    ]
    np.testing.assert_allclose(f(x[::-1], x[:, ::-1], x[:, ::2]), expected, rtol=1e-12, atol=1e-13)
