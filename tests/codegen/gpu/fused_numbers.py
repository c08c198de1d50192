"""Fused kernels, run by Triton's interpreter: `test_fused_numbers` runs these in a process.

What they are compared with is the direct plan of NumPy in float64, or loops.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen.gpu.fused_step import why_not_fused
from symattn.codegen.gpu.triton_code import kernel_text
from symattn.nodes import InputVector
from symattn.notation.names import identifier
from tests.codegen.gpu.machines import InterpretedMachine, fused_function, fused_in_numpy
from tests.codegen.gpu.pairs import attended_in

TOLERANCE = {"float32": 3e-6, "float16": 3e-3, "bfloat16": 2e-2}
SIZES = {"n": 37, "m": 53, "d_k": 5, "d_v": 19, "d_a": 6, "d": 8, "h": 2, "w": 20, "p": 21, "e": 9}
LEFT = 3  # of tags that have no size above

n, m, d, e = sa.dims("n m d e")
Q, K, V = sa.matrix("Q", n, d), sa.matrix("K", m, d), sa.matrix("V", m, e)
S = Q @ K.T / sa.sqrt(d)


@pytest.fixture(autouse=True, scope="module")
def machine() -> Iterator[InterpretedMachine]:
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("test_fused_numbers runs these")
    made = InterpretedMachine()
    with fused_in_numpy(made):
        yield made


def dtype_of(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    return np.dtype(name)


def random(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype_of(dtype))


def wide(arrays: Any) -> Any:
    return [x if x.dtype == bool else x.astype(np.float64) for x in arrays]


def check(found: np.ndarray, expected: np.ndarray, dtype: str = "float32", by: float = 1) -> None:
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1)
    tolerance = TOLERANCE[dtype] * scale * by
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=tolerance)


# Every formula of the catalogue, in every layout and dtype.


@cache
def arguments(name: str, layout: str) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The inputs of an entry in float64, and its scalars, masks and sizes by name."""
    entry = sa.formula(name, layout=layout)
    result = entry.program.result
    sizes = dict(SIZES)
    for tag in result.tags:
        sizes.setdefault(tag, LEFT)
    for tag, size in result.given:
        sizes[tag] = size.value(sizes)
    arrays: list[np.ndarray] = []
    for seed, item in enumerate(entry.inputs):
        axes = item.sizes[:1] if isinstance(item, InputVector) else item.sizes
        arrays.append(random(tuple(size.value(sizes) for size in axes), "float64", seed))
    given: dict[str, Any] = {identifier(one.name): 0.75 for one in result.scalars()}
    for mask in result.booleans():
        shape = tuple(size.value(sizes) for size in mask.sizes)
        given[mask.label] = random(shape, "float64", 9) < 0.5
    open_sizes = inspect.signature(sa.lambdify(entry.inputs, entry)).parameters
    given |= {tag: sizes[tag] for tag in open_sizes if tag in result.tags}
    return arrays, given


FUSED = [
    name
    for name in sa.formulas()
    if all(not why_not_fused(sa.formula(name, layout=one).program) for one in ("row", "column"))
]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("name", FUSED)
def test_the_catalogue_agrees_with_float64(name: str, layout: str, dtype: str) -> None:
    entry = sa.formula(name, layout=layout)
    arrays, given = arguments(name, layout)
    arrays = [(x / 2).astype(dtype_of(dtype)) for x in arrays]
    expected = sa.lambdify(entry.inputs, entry, plan="direct")(*wide(arrays), **given)
    f = fused_function(entry.inputs, entry)
    assert "fused_kernel" in f.source
    found = f(*arrays, **given)
    assert found.dtype == dtype
    check(found, expected, dtype, by=4)  # projections are rounded too


# Masks.

MASKS = {
    "none": None,
    "causal": sa.causal("top_left"),
    "causal, last": sa.causal("bottom_right"),
    "window": sa.window(6, "top_left"),
    "a wide window": sa.window(21, "top_left") & sa.causal("top_left"),
    "a window of one": sa.window(1, "bottom_right"),
    "prefix": sa.prefix(19),
    "prefix LM": sa.prefix(19) | sa.causal("top_left"),
    "what comes after": ~sa.causal("top_left"),
    "after a prefix": ~sa.prefix(19) & sa.causal("bottom_right"),
    "keep": sa.keep(),
    "keep and causal": sa.keep() & sa.causal("bottom_right"),
    "padding": sa.padding(),
    "padding or window": sa.padding() | sa.window(3, "top_left"),
    "not keep": ~sa.keep(),
}
TOKENS = [(37, 53), (53, 37), (48, 48), (1, 40), (40, 1), (16, 16), (33, 32)]


def of_masks(mask: Any, n: int, m: int) -> dict[str, np.ndarray]:
    labels = (
        [one.label for one in sa.softmax(S, axis=1, mask=mask).booleans()]
        if mask is not None
        else []
    )
    shapes = {"keep": (n, m), "padding": (m,)}
    return {label: random(shapes[label], "float64", 5) < 0 for label in labels}


@pytest.mark.parametrize("tokens", TOKENS, ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_every_mask_agrees_with_float64(mask: str, tokens: tuple[int, int]) -> None:
    formula = sa.softmax(S, axis=1, mask=MASKS[mask]) @ V
    q, k, v = random((tokens[0], 8)), random((tokens[1], 8), seed=1), random((tokens[1], 5), seed=2)
    given = of_masks(MASKS[mask], *tokens)
    both = ("output", "lse")
    found = fused_function([Q, K, V], formula, returns=both)(q, k, v, **given)
    direct = sa.lambdify([Q, K, V], formula, plan="direct", returns=both)
    expected = direct(*wide([q, k, v]), **given)
    check(found[0], expected[0])
    check(found[1], expected[1])
    np.testing.assert_array_equal(np.isinf(found[1]), np.isinf(expected[1]))


def test_a_mask_of_the_catalogue_is_not_asked_where_all_is_seen() -> None:
    """Causal: of 3 blocks of queries over 3 of keys, 3 are full, 3 mixed, and 3 skipped."""
    kernel = kernel_text(attended_in(sa.softmax(S, axis=1, mask=sa.causal("top_left")) @ V)[0])
    assert "tl.range(full, stop, BN)" in kernel.text
    assert "tl.range(stop, last, BN)" in kernel.text


# What is masked out, and what is no finite number.


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("where", ["keys", "values", "both"])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_masked_out_may_be_anything(odd: float, where: str, dtype: str) -> None:
    f = fused_function([Q, K, V], sa.softmax(S, axis=1, mask=sa.padding()) @ V)
    q, k, v = (random((size, 5), dtype, 3) for size in (19, 40, 40))
    padding = np.arange(40) % 3 != 1
    expected = f(q, k, v, padding=padding)
    assert np.isfinite(expected.astype(np.float64)).all()
    k, v = k.copy(), v.copy()
    if where != "values":
        k[~padding] = odd
    if where != "keys":
        v[~padding] = odd
    check(f(q, k, v, padding=padding), expected.astype(np.float64), dtype)


def test_what_is_seen_of_values_that_are_no_numbers_counts() -> None:
    f = fused_function([Q, K, V], sa.softmax(S, axis=1, mask=sa.causal("top_left")) @ V)
    q, k, v = random((40, 4)), random((40, 4), seed=1), random((40, 6), seed=2)
    v[5, 0], v[20, 1], v[33, 2] = np.nan, np.inf, -np.inf
    v[2, 3], v[18, 3] = np.inf, -np.inf
    expected = sa.lambdify([Q, K, V], sa.softmax(S, axis=1, mask=sa.causal("top_left")) @ V)(
        *wide([q, k, v])
    )
    assert np.isnan(expected).any()
    assert np.isposinf(expected).any()
    found = f(q, k, v)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isposinf(found), np.isposinf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], atol=1e-5)


def test_a_bias_that_is_masked_out_may_be_anything() -> None:
    B = sa.matrix("B", n, m)
    formula = sa.softmax(S + B, axis=1, mask=sa.causal("top_left")) @ V
    q, k, v, b = random((20, 4)), random((20, 4)), random((20, 3)), random((20, 20))
    f = fused_function([Q, K, V, B], formula)
    expected = f(q, k, v, b)
    np.testing.assert_array_equal(f(q, k, v, np.where(np.tri(20) > 0, b, np.nan)), expected)


@pytest.mark.parametrize("mask", [None, sa.causal("top_left")], ids=["none", "causal"])
def test_nan_in_a_query_is_nan_in_its_row_alone(mask: Any) -> None:
    f = fused_function([Q, K, V], sa.softmax(S, axis=1, mask=mask) @ V)
    q, k, v = random((20, 4)), random((20, 4)), random((20, 3))
    q[7, 1] = np.nan
    found = f(q, k, v)
    assert np.isnan(found[7]).all()
    assert np.isfinite(np.delete(found, 7, axis=0)).all()


def test_queries_without_a_key_are_zero() -> None:
    f = fused_function(
        [Q, K, V], sa.softmax(S, axis=1, mask=sa.keep()) @ V, returns=("output", "lse")
    )
    keep = np.zeros((20, 40), bool)
    keep[3, 33] = keep[17, :] = True
    found, lse = f(random((20, 4)), random((40, 4)), random((40, 3)), keep=keep)
    some = keep.any(axis=1)
    np.testing.assert_array_equal(found[~some], 0)
    np.testing.assert_array_equal(lse[~some], -np.inf)
    assert np.isfinite(lse[some]).all()


@pytest.mark.parametrize("keep", [[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]])
def test_blocks_without_a_key(keep: list[int]) -> None:
    f = fused_function([Q, K, V], sa.softmax(Q @ K.T, axis=1, mask=sa.keep()) @ V)
    kept = np.repeat(np.array([keep], bool), 16, axis=1)  # four blocks of keys
    k, v = random((64, 2)), random((64, 3), seed=1)
    q = np.array([[1, 2]], np.float32)
    scores = np.where(kept, q.astype(float) @ k.T, -np.inf)
    weights = np.exp(scores - scores.max())
    check(f(q, k, v, keep=kept), weights / weights.sum() @ v)


def test_no_score_is_too_large_or_too_small() -> None:
    f = fused_function([Q, K, V], sa.softmax(Q @ K.T, axis=1, mask=sa.keep()) @ V)
    q, k = np.ones((1, 1), np.float32), np.array([[-60000], [-60001], [0]], np.float32)
    v = np.array([[1], [2], [3]], np.float32)
    found = f(q, k, v, keep=np.array([[True, True, False]]))
    np.testing.assert_allclose(found, [[1.2689414213699952]], rtol=1e-6)


FAR = [-1e9, -3e9, -1e10, -1e20, -1e30, float(np.finfo(np.float32).min), 1e10, 1e30]


@pytest.mark.parametrize("mask", [None, sa.causal("bottom_right")], ids=["none", "causal"])
@pytest.mark.parametrize("far", FAR)
def test_biases_may_be_of_any_size(far: float, mask: Any) -> None:
    """A bias that stands for a mask: of whole blocks of keys, of single ones, and of all."""
    B = sa.matrix("B", n, m)
    formula = sa.softmax(S + B, axis=1, mask=mask) @ V
    q, k, v = random((37, 4)), random((53, 4), seed=1), random((53, 3), seed=2)
    b = np.zeros((37, 53), np.float32)
    b[:, :20] = b[5] = b[:9, 40:] = far
    b[11, 20:] = 3 * far if abs(far) < 1e38 else far
    both = ("output", "lse")
    found = fused_function([Q, K, V, B], formula, returns=both)(q, k, v, b)
    direct = sa.lambdify([Q, K, V, B], formula, plan="direct", returns=both)
    expected = direct(*(x.astype(np.float32) for x in (q, k, v, b)))  # digits are lost in b + s
    check(found[0], expected[0], by=10)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-50, 1e-44, 1e-30, 1.0, 1e7, 1e30])
def test_a_positive_scale_may_be_of_any_size(scale: float) -> None:
    c = sa.scalar("c", positive=True)
    formula = sa.softmax(c * Q @ K.T, axis=1, mask=sa.causal("top_left")) @ V
    q, k, v = (random((37, size), seed=size) for size in (4, 4, 3))
    k = q * 2  # so that each query has a key that is far above the others
    expected = sa.lambdify([Q, K, V, c], formula, plan="direct")(*wide([q, k, v]), scale)
    check(fused_function([Q, K, V, c], formula)(q, k, v, scale), expected, by=10)


@pytest.mark.parametrize("cap", [1e-3, 1.0, 50.0, 1e4, 1e7])
def test_a_cap_may_be_of_any_size(cap: float) -> None:
    c = sa.scalar("c", positive=True)
    formula = sa.softmax(c * sa.tanh(S / c), axis=1) @ V
    q, k, v = random((20, 4)), random((40, 4), seed=1), random((40, 3), seed=2)
    expected = sa.lambdify([Q, K, V, c], formula, plan="direct")(*wide([q, k, v]), cap)
    check(fused_function([Q, K, V, c], formula)(q, k, v, cap), expected)


# Sizes.


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_sums_are_not_taken_in_two_bytes(dtype: str) -> None:
    f = fused_function([Q, K, V], sa.softmax(S, axis=1) @ V)
    q, k, v = (
        make((size, width), dtype_of(dtype))
        for make, size, width in ((np.zeros, 1, 8), (np.zeros, 2048, 8), (np.ones, 2048, 1))
    )
    np.testing.assert_array_equal(f(q, k, v), [[1]])


@pytest.mark.parametrize("width", [1, 3, 16, 17, 40])
def test_heads_of_every_size(width: int) -> None:
    formula = sa.softmax(S, axis=1, mask=sa.causal("bottom_right")) @ V
    q, k, v = (
        random((18, width)),
        random((35, width), seed=1),
        random((35, 20 - width // 2), seed=2),
    )
    expected = sa.lambdify([Q, K, V], formula)(*wide([q, k, v]))
    check(fused_function([Q, K, V], formula)(q, k, v), expected)


@pytest.mark.parametrize("batch", [(), (2,), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("tokens", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_empty_sequences(tokens: tuple[int, int], batch: tuple[int, ...]) -> None:
    shapes = ((*batch, tokens[0], 4), (*batch, tokens[1], 4), (*batch, tokens[1], 3))
    for mask in (None, sa.keep()):
        keep = {"keep": np.ones(tokens, bool)} if mask is not None else {}
        f = fused_function(
            [Q, K, V], sa.softmax(S, axis=1, mask=mask) @ V, returns=("output", "lse")
        )
        found, lse = f(*(np.ones(shape, np.float32) for shape in shapes), **keep)
        np.testing.assert_array_equal(found, np.zeros((*batch, tokens[0], 3)))
        np.testing.assert_array_equal(lse, np.full((*batch, tokens[0]), -np.inf))


def test_vectors_and_values_without_entries() -> None:
    f = fused_function([Q, K, V], sa.softmax(Q @ K.T, axis=1) @ V, returns=("output", "lse"))
    v = random((9, 4))
    found, lse = f(np.ones((5, 0), np.float32), np.ones((9, 0), np.float32), v)
    check(found, np.broadcast_to(v.mean(axis=0), (5, 4)))
    found, lse = f(np.zeros((5, 3), np.float32), np.ones((9, 3), np.float32), v[:, :0])
    assert found.shape == (5, 0)
    np.testing.assert_allclose(lse, np.log(9), rtol=1e-6)


# Memory.


def attend(mask: Any = None) -> tuple[Any, Any]:
    formula = sa.softmax(S, axis=1, mask=mask) @ V
    return fused_function([Q, K, V], formula), sa.lambdify([Q, K, V], formula, plan="direct")


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3), (2, 3), (2, 3)),
        ((2, 3), (2, 1), (1, 3)),
        ((3,), (2, 1), ()),
        ((), (), (2,)),
        ((2, 1, 2, 1, 2), (2, 1, 1, 2), (2, 1, 2, 1, 1)),
    ],
    ids=str,
)
def test_leading_axes(shapes: tuple[tuple[int, ...], ...]) -> None:
    f, direct = attend(sa.causal("top_left"))
    rest = ((19, 4), (21, 4), (21, 6))
    q, k, v = (random(a + b, seed=i) for i, (a, b) in enumerate(zip(shapes, rest, strict=True)))
    check(f(q, k, v), direct(*wide([q, k, v])))


def test_grouped_queries_repeat_nothing(machine: InterpretedMachine) -> None:
    f, direct = attend()
    q = random((2, 3, 20, 4))  # groups, queries of each
    k, v = random((2, 1, 22, 4), seed=1), random((2, 1, 22, 3), seed=2)
    check(f(q, k, v), direct(*wide([q, k, v])))
    launch = machine.launches[-1]
    names = [name for name, kind in launch.variant.types if kind == "i64"]
    strides = dict(zip(names, launch.strides, strict=True))
    assert strides["X1_2"] == strides["V_2"] == 0
    assert len(launch.offsets) == 1


VIEWS = {
    "reversed": lambda x: x[..., ::-1, :],
    "columns reversed": lambda x: x[..., ::-1],
    "every second column": lambda x: x[..., ::2],
    "every second row": lambda x: x[..., ::2, :],
    "turned": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "heads inside": lambda x: np.ascontiguousarray(x.swapaxes(-3, -2)).swapaxes(-3, -2),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "one column repeated": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "one row repeated": lambda x: np.broadcast_to(x[..., :1, :], x.shape),
    "odd start": lambda x: np.frombuffer(b"xxxx" + x.tobytes(), x.dtype, offset=4).reshape(x.shape),
}


@pytest.mark.parametrize("view", VIEWS)
def test_arrays_lie_anywhere(view: str) -> None:
    f, direct = attend(sa.keep())
    look = VIEWS[view]
    q, k, v = (look(random((3, 24, 8), seed=seed)) for seed in range(3))
    keep = look(random((3, q.shape[-2], k.shape[-2])))[..., : q.shape[-2], : k.shape[-2]] > 0
    if keep.shape[-2:] != (q.shape[-2], k.shape[-2]):
        keep = np.ones((q.shape[-2], k.shape[-2]), bool)
    for x in (q, k, v):
        x.flags.writeable = False
    check(f(q, k, v, keep=keep), direct(*wide([q, k, v]), keep=keep))


def test_the_result_is_written_where_it_is_asked_for() -> None:
    f, direct = attend(sa.causal("top_left"))
    q, k, v = (random((2, 20, 8), seed=seed) for seed in range(3))
    expected = direct(*wide([q, k, v]))
    memory = np.full((2, 8, 41), np.nan, np.float32)
    out = memory.swapaxes(-1, -2)[:, 1::2]  # neither rows nor columns lie side by side
    assert f(q, k, v, out=out) is out
    check(out, expected)
    assert np.isnan(memory[:, :, ::2]).all()


def test_positions_are_numbers_of_any_size() -> None:
    bias = sa.positional(lambda i, j: -((i - j) ** 10) / 10**14, n, m, layout="row")
    formula = sa.softmax(S + bias, axis=1) @ V
    q, k, v = random((40, 4)), random((40, 4), seed=1), random((40, 3), seed=2)
    expected = sa.lambdify([Q, K, V], formula, plan="direct")(*wide([q, k, v]))
    check(fused_function([Q, K, V], formula)(q, k, v), expected, by=10)


def test_a_window_may_be_wider_than_any_sequence() -> None:
    w = sa.dim("w")
    formula = sa.softmax(S, axis=1, mask=sa.window(w, "top_left")) @ V
    q, k, v = random((20, 4)), random((40, 4), seed=1), random((40, 3), seed=2)
    expected = sa.lambdify([Q, K, V], sa.softmax(S, axis=1) @ V)(*wide([q, k, v]))
    for width in (10**12, 2**31, 64):
        check(fused_function([Q, K, V], formula)(q, k, v, w=width), expected)


@pytest.mark.parametrize("size", [7, 2**24 + 1, 2**31, 2**40])
def test_sizes_in_a_bias_may_be_larger_than_any_position(size: int) -> None:
    w = sa.dim("w")
    far = 3 * 2**33
    q, k, v = random((20, 4)), random((40, 4), seed=1), random((40, 3), seed=2)
    for bias in (
        lambda i, j: (i - j + w) / (w + n),
        lambda i, j: abs(j - w) / w * (j + 1) / 4,
        lambda i, j: (i + m - n - j + far) * (j + 1) / far + w / w,
    ):
        formula = sa.softmax(S + sa.positional(bias, n, m, layout="row"), axis=1) @ V
        f = fused_function([Q, K, V], formula, returns=("output", "lse"))
        direct = sa.lambdify([Q, K, V], formula, plan="direct", returns=("output", "lse"))
        given = {"w": size} if "w" in inspect.signature(direct).parameters else {}
        found, expected = f(q, k, v, **given), direct(*wide([q, k, v]), **given)
        check(found[0], expected[0], by=4)
        check(found[1], expected[1], by=4)


@pytest.mark.parametrize("align", ["top_left", "bottom_right"])
@pytest.mark.parametrize("width", [2**24 + 1, 2**31 - 1, 2**31, 10**12])
def test_a_known_window_may_be_wider_than_any_sequence(width: int, align: str) -> None:
    mask = sa.window(width, align) & sa.causal(align)
    q, k, v = random((20, 4)), random((40, 4), seed=1), random((40, 3), seed=2)
    for known, same in ((mask, sa.causal(align)), (sa.prefix(width), None)):
        expected = sa.lambdify([Q, K, V], sa.softmax(S, axis=1, mask=same) @ V)(*wide([q, k, v]))
        f = fused_function([Q, K, V], sa.softmax(S, axis=1, mask=known) @ V)
        check(f(q, k, v), expected)


def test_float64_is_refused() -> None:
    f, _ = attend()
    with pytest.raises(sa.NotSupportedError, match="float64 in one kernel"):
        f(*(np.ones((4, 4)) for _ in range(3)))


@pytest.mark.parametrize("value", [-0.7, 0.0, 0.7])
def test_a_scale_may_have_any_sign(value: float) -> None:
    c = sa.scalar("c")
    formula = sa.softmax(c * Q @ K.T, axis=1, mask=sa.causal("bottom_right")) @ V
    q, k, v = random((20, 4)), random((40, 4), seed=1), random((40, 3), seed=2)
    f = fused_function([Q, K, V, c], formula)
    expected = sa.lambdify([Q, K, V, c], formula, plan="direct")(*wide([q, k, v]), value)
    check(f(q, k, v, value), expected)


FUNCTIONS = ["exp", "tanh", "sin", "cos", "relu", "sigmoid", "silu", "softplus", "square"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_scores(function: str) -> None:
    formula = sa.softmax(getattr(sa, function)(S), axis=1, mask=sa.causal("top_left")) @ V
    q, k, v = random((20, 4)), random((20, 4), seed=1), random((20, 3), seed=2)
    expected = sa.lambdify([Q, K, V], formula, plan="direct")(*wide([q, k, v]))
    check(fused_function([Q, K, V], formula)(q, k, v), expected)


@pytest.mark.parametrize("function", ["sqrt", "log", "reciprocal"])
def test_functions_of_positive_scores(function: str) -> None:
    formula = sa.softmax(getattr(sa, function)(sa.softplus(S)), axis=1) @ V
    q, k, v = random((20, 4)), random((20, 4), seed=1), random((20, 3), seed=2)
    expected = sa.lambdify([Q, K, V], formula, plan="direct")(*wide([q, k, v]))
    check(fused_function([Q, K, V], formula)(q, k, v), expected)
