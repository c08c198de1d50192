"""The blocked plan for CuPy without a device: arrays, numbers and sizes of every kind."""

from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen.gpu import row_blocks, row_choice, row_strips
from tests.codegen.gpu.host_rows import HostDevice, in_strips, needs_compiler, rows_of
from tests.codegen.test_blocked import (
    COLUMN,
    INPUTS,
    ROW,
    by_hand,
    random_rows,
    turn,
)
from tests.variants.points import (
    each_layout,
)

pytestmark = [needs_compiler, pytest.mark.usefixtures("device")]

Array = np.ndarray[Any, Any]

d_k, d_v, n, m = sa.dims("d_k d_v n m")


# Further results.


@pytest.mark.parametrize("mask", [None, sa.causal("bottom_right")], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("keys", [7, 0])
def test_sums_of_exponentials(mask: Any, dtype: str, keys: int) -> None:
    formula, returns = sa.attention(*ROW, mask=mask, layout="row"), ("lse", "output")
    arrays = [x.astype(dtype) for x in random_rows(9, keys, 2)]
    expected = sa.lambdify(ROW, formula, returns=returns)(*(x.astype(float) for x in arrays))
    found = in_strips(ROW, formula, returns=returns)(*arrays)
    assert [x.dtype for x in found] == [np.promote_types(dtype, "float32"), dtype]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-3)
    assert found[0][np.isfinite(found[0])] == pytest.approx(expected[0][np.isfinite(expected[0])])


@each_layout
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_memory_for_the_result(layout: str, dtype: str) -> None:
    formula = sa.attention(*INPUTS[layout], layout=layout)
    q, k, v = (turn(layout, x).astype(dtype) for x in random_rows(9, 13, 2))
    expected = in_strips(INPUTS[layout], formula)(q, k, v)
    memory = np.full((2, *(2 * size for size in expected.shape[1:])), 7, dtype)
    out = memory[::-1, ::2, ::-2]
    found = in_strips(INPUTS[layout], formula)(q, k, v, out=out)
    assert np.shares_memory(found, memory)
    np.testing.assert_array_equal(out, expected)
    assert (memory[:, 1::2] == 7).all()


# Numbers that are none, large ones, small ones, and none at all.


@each_layout
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("mask", [None, sa.causal("top_left"), sa.keep()], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_what_is_no_number_goes_where_it_goes_in_the_direct_plan(
    layout: str, bad: float, mask: Any, dtype: str
) -> None:
    formula = sa.attention(*INPUTS[layout], mask=mask, layout=layout)
    direct = sa.lambdify(INPUTS[layout], formula, plan="direct")
    named = {"keep": np.random.default_rng(4).random((9, 13)) < 0.5} if mask == sa.keep() else {}
    for which in range(3):
        for at in ((0, 0), (5, 1), (8, 2)):
            arrays = [x.astype(dtype) for x in random_rows(9, 13, seed=which)]
            arrays[which][at] = bad
            turned = [turn(layout, x).astype(float) for x in arrays]
            expected = turn(layout, direct(*turned, **named))
            found = rows_of(layout, formula, *arrays, **named)
            tolerance = {"float64": 1e-11, "float16": 3e-3}[dtype]
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@each_layout
def test_no_number_among_masked_out_keys_has_no_influence(layout: str) -> None:
    q, k, v = random_rows(9, 13)
    keep = np.random.default_rng(1).random((9, 13)) < 0.6
    keep[4] = False
    keep[:, [3, 10, 12]] = False
    expected = by_hand(q, k, v, seen=lambda i, j: keep[i, j])
    k[3], v[3], k[10], v[12] = np.nan, np.nan, np.inf, -np.inf
    formula = sa.attention(*INPUTS[layout], mask=sa.keep(), layout=layout)
    found = rows_of(layout, formula, q, k, v, keep=keep)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    assert not found[4].any()


@pytest.mark.parametrize("shift", [-300, 300])
@pytest.mark.parametrize("scale", [1, 40])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_large_scores(dtype: str, shift: float, scale: float) -> None:
    b = sa.scalar("b")
    formula = sa.attention(*ROW, bias=lambda i, j: b + 0 * (i + j), layout="row")
    q, k, v = (array.astype(dtype) for array in random_rows(9, 13))
    q *= scale
    found = in_strips([*ROW, b], formula)(q, k, v, shift)
    exact = by_hand(q.astype(float), k.astype(float), v.astype(float))
    tolerance = {"float32": 1e-4, "float64": 1e-11}[dtype]
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)


def test_sums_of_two_bytes_do_not_stop_counting() -> None:
    """4096 equal keys, and as many whose weights next to the largest would be 0 in two bytes."""
    formula = sa.attention(*ROW, layout="row")
    q, k, v = np.zeros((1, 8)), np.zeros((4096, 8)), np.ones((4096, 1))
    found = rows_of("row", formula, *(x.astype("float16") for x in (q, k, v)))
    assert found.tolist() == [[1.0]]
    k[0, 0], q[0, 0], v[0] = 12, 4, 0  # e^17 against 4095 times 1
    q, k, v = (x.astype("float16") for x in (q, k, v))
    exact = by_hand(q.astype(float), k.astype(float), v.astype(float))
    found = rows_of("row", formula, q, k, v)
    np.testing.assert_allclose(found, exact, rtol=2e-3)
    assert 1e-4 < exact[0, 0] < 1e-3


@pytest.mark.parametrize("mask", [None, sa.causal("top_left"), sa.keep()], ids=str)
@pytest.mark.parametrize("empty", ["queries", "keys", "batch", "values", "entries"])
def test_axes_of_size_zero(mask: Any, empty: str) -> None:
    formula = sa.attention(*ROW, mask=mask, layout="row")
    queries, keys = 0 if empty == "queries" else 9, 0 if empty == "keys" else 13
    q, k, v = random_rows(queries, keys, 0 if empty == "batch" else 2)
    v = v[..., : 0 if empty == "values" else None]
    if empty == "entries":
        formula = sa.softmax(ROW[0] @ ROW[1].T, axis=1, mask=mask) @ ROW[2]
        q, k = q[..., :0], k[..., :0]
    named = {"keep": np.ones((len(q), queries, keys), bool)} if mask == sa.keep() else {}
    found, lse = in_strips(ROW, formula, returns=("output", "lse"))(q, k, v, **named)
    direct = sa.lambdify(ROW, formula, returns=("output", "lse"), plan="direct")
    with np.errstate(divide="ignore"):
        expected = direct(q, k, v, **named)
    np.testing.assert_allclose(found, expected[0], rtol=1e-12)
    np.testing.assert_allclose(lse, expected[1], rtol=1e-12)


# Arrays of every kind.


@each_layout
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_batches_broadcast_and_any_strides(layout: str, dtype: str) -> None:
    formula = sa.attention(*INPUTS[layout], mask=sa.keep(), layout=layout)
    direct = sa.lambdify(INPUTS[layout], formula, plan="direct")
    q, k, v = (x.astype(dtype) for x in random_rows(18, 26, 2, 3))
    keep = np.random.default_rng(0).random((2, 1, 18, 26)) < 0.7
    records = np.zeros((2, 3, 18, 5), [("x", dtype), ("other", "i1")])
    records["x"] = q
    kinds = [
        (q[:1, :, ::2], k[:, :1, ::-2], v[0, 0, ::2], keep[..., ::-2, ::2]),
        (q[0, 0, :9][::-1], k[..., :13, :], v[..., 13:, ::-1], keep[:, :, :9, :13]),
        (
            np.broadcast_to(q[0, 0, :1], (2, 3, 9, 5)),
            k[1, :, 13:],
            v[:, :, 13:],
            keep[0, 0, 9:, 13:],
        ),
        (np.asfortranarray(q)[..., :9, :], k[..., 0:1, :], v[..., 0:1, :], keep[..., :9, :1]),
        (q[::-1, ::-1], k[::-1, :, :, ::-1], v[:, ::-1], keep[::-1]),
        (np.moveaxis(np.moveaxis(q, 2, 0).copy(), 0, 2), k, v, keep),
        (records["x"], k, v, keep),
    ]
    for *arrays, allowed in kinds:
        before = [array.copy() for array in (*arrays, allowed)]
        for array in (*arrays, allowed):
            array.flags.writeable = False
        found = rows_of(layout, formula, *arrays, keep=allowed)
        turned = (turn(layout, a.astype(float)) for a in arrays)
        expected = turn(layout, direct(*turned, keep=allowed))
        tolerance = {"float64": 1e-11, "float16": 4e-3}[dtype]
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        for array, was in zip((*arrays, allowed), before, strict=True):
            np.testing.assert_array_equal(array, was)


def test_bfloat16_is_computed_in_float32(device: HostDevice) -> None:
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    G = sa.matrix("G", n, m)
    formula = sa.softmax(ROW[0] @ ROW[1].T + G, axis=1, mask=sa.keep()) @ ROW[2]
    keep = np.random.default_rng(0).random((9, 13)) < 0.6
    arrays = [*random_rows(9, 13, 2), np.random.default_rng(1).normal(size=(9, 13))]
    given = [array.astype(dtype) for array in arrays]
    found = in_strips([*ROW, G], formula)(*given, keep=keep)
    expected = sa.lambdify([*ROW, G], formula)(*(x.astype(float) for x in given), keep=keep)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.astype(float), expected, rtol=1e-2, atol=1e-2)
    assert {product[:3] for product in device.products} == {("float32", "float32", "float32")}


def test_only_what_a_product_cannot_read_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys for several heads are one array still, and views of rows, heads and columns are read."""
    copied: list[tuple[int, ...]] = []
    copy = row_blocks.multiplied.__globals__["_as"]

    def counted(array: Array, dtype: Any, library: Any) -> Array:
        copied.append(array.shape)
        return copy(array, dtype, library)

    monkeypatch.setitem(row_blocks.multiplied.__globals__, "_as", counted)
    f = in_strips(ROW, sa.attention(*ROW, layout="row"))
    q, k, v = random_rows(9, 26, 2, 6)
    f(q[:, ::2], k[:, 1:2, ::2], v.swapaxes(-1, -2).copy().swapaxes(-1, -2)[:, :3, 13:])
    assert copied == []
    f(q[..., ::-1], k[:, :1], v[..., ::2])
    assert copied == [(2, 6, 9, 5), (2, 6, 26, 2)]


def test_heads_that_follow_each_other_go_together(device: HostDevice) -> None:
    f = in_strips(ROW, sa.attention(*ROW, layout="row"))
    q, k, v = random_rows(4, 13, 2, 3)
    f(q, k, v)
    assert [count for *_, count in device.products] == [6, 6]
    device.products.clear()
    kv_heads = [x[:, :, None] for x in (k, v)]  # grouped queries: 3 heads of keys for 6
    f(np.broadcast_to(q[:, :, None], (2, 3, 4, 4, 5)), *kv_heads)
    assert [count for *_, count in device.products] == [6, 6] * 4


# How the work is divided.


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("most", [64, 4 * 16 * 8, 2**20])
def test_the_memory_of_scores_is_bounded(
    dtype: str, most: int, device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_strips, "SCORES_BYTES", most)
    taken: list[int] = []
    take = row_blocks._Sums.take_memory

    def counted(sums: Any, *arguments: Any) -> None:
        take(sums, *arguments)
        taken.append(sums.memory[0].nbytes)

    monkeypatch.setattr(row_blocks._Sums, "take_memory", counted)
    q, k, v = (x.astype(dtype) for x in random_rows(9, 13, 3))
    expected = sa.lambdify(ROW, formula := sa.attention(*ROW, layout="row"))(q, k, v)
    found = in_strips(ROW, formula)(q, k, v)
    np.testing.assert_allclose(found, expected, rtol=4e-3)
    row = 16 * (8 if dtype == "float64" else 4)
    assert taken[0] <= max(most, row)
    assert len(device.launched) >= 2


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("keys", [11, 13])
@pytest.mark.parametrize("mask", [None, sa.causal("bottom_right"), sa.keep()], ids=str)
def test_keys_in_parts(
    dtype: str, keys: int, mask: Any, device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where queries are few, values are summed in several parts of the keys at once."""
    monkeypatch.setattr(row_strips, "LEAST_WORK", 1)
    monkeypatch.setattr(row_strips, "LEAST_KEYS", 3)
    formula = sa.attention(*ROW, mask=mask, layout="row")
    q, k, v = (x.astype(dtype) for x in random_rows(9, keys, 2))
    named = {"keep": np.random.default_rng(0).random((9, keys)) < 0.6} if mask == sa.keep() else {}
    expected = sa.lambdify(ROW, formula)(*(x.astype(float) for x in (q, k, v)), **named)
    found = in_strips(ROW, formula)(q, k, v, **named)
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=1e-3)
    assert len(device.products) > 2 * 3  # two for each strip, if keys were not split


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_several_threads_of_a_block(
    threads: int, dtype: str, device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of two bytes are written where other threads had scores: they have read them."""
    device.threads = threads
    monkeypatch.setattr(row_strips, "ROWS", 64)
    formula = sa.attention(*ROW, layout="row", score=lambda q, k: sa.tanh(k.T @ q))
    q, k, v = (x.astype(dtype) for x in random_rows(3, 16 * threads + 5))
    expected = sa.lambdify(ROW, formula)(*(x.astype(float) for x in (q, k, v)))
    np.testing.assert_allclose(in_strips(ROW, formula)(q, k, v), expected, rtol=4e-3, atol=2e-3)


def test_the_plan_suits_the_sizes() -> None:
    f = sa.lambdify(ROW, sa.attention(*ROW, layout="row"), backend="cupy")
    assert (f.plan, set(f.sources)) == ("auto", {"direct", "blocked", "fused"})
    assert f"{row_choice.FEW_SCORES:,}" in f.plan_reason
    assert "workers" not in f.__signature__.parameters
    for shape, expected in [
        ((1024, 1024), "direct"),
        ((1025, 1024), "blocked"),
        ((0, 5), "direct"),
    ]:
        queries, keys = shape
        given = [np.broadcast_to(np.float64(0), (size, 2)) for size in (queries, keys, keys)]
        sizes = {"n": queries, "m": keys, "d_k": 2, "d_v": 2}
        assert f._plans.chosen(sizes, given, {}).source is f._plans.by_name[expected], shape


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        (lambda Q, K, V: Q @ K.T @ V, "no softmax"),
        (lambda Q, K, V: sa.softmax(sa.max(Q @ K.T, axis=0), axis=1) @ V, "max"),
    ],
)
def test_what_has_no_strips_says_why(formula: Any, reason: str) -> None:
    Q, K, V = sa.matrix("Q", m, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    f = sa.lambdify([Q, K, V], formula(Q, K, V), backend="cupy")
    assert (f.plan, reason in f.plan_reason) == ("direct", True)
    with pytest.raises(sa.NotSupportedError, match=reason):
        sa.lambdify([Q, K, V], formula(Q, K, V), backend="cupy", plan="blocked")


def test_names_of_inputs_are_their_own() -> None:
    """Inputs called as what the source and the kernel call theirs."""
    names = ("scores", "s0", "batch", "KERNEL")
    Q, K = sa.matrix(names[0], n, d_k), sa.matrix(names[1], m, d_k)
    V, c = sa.matrix(names[2], m, d_v), sa.scalar(names[3])
    formula = sa.softmax(c * sa.tanh(Q @ K.T), axis=1) @ V
    q, k, v = random_rows(9, 13)
    found = in_strips([Q, K, V, c], formula)(q, k, v, 2.0)
    expected = sa.lambdify([Q, K, V, c], formula)(q, k, v, 2.0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_it_stands_alone_when_saved(tmp_path: Any, device: HostDevice) -> None:
    formula = sa.attention(*COLUMN, mask=sa.causal("top_left"))
    arrays = [turn("column", x) for x in random_rows(9, 13)]
    expected = sa.lambdify(COLUMN, formula)(*arrays)
    for plan in ("blocked", "auto"):
        f = sa.lambdify(COLUMN, formula, backend="cupy", plan=plan)
        text = f.save(tmp_path / f"{plan}.py").read_text("utf-8")
        assert "symattn." not in text.replace("`symattn.", "")
        namespace: dict[str, Any] = {}
        exec(text.replace("import cupy as", "import numpy as"), namespace)
        namespace["_DEVICE"] = device
        namespace["_FEW_SCORES"] = 1
        np.testing.assert_allclose(namespace["compute"](*arrays), expected, rtol=1e-12)
    assert device.launched
