"""Fused kernels on a CUDA device: the catalogue, masks, views, long rows, memory."""

from typing import Any

import numpy as np
import pytest

import symattn as sa
from tests.gpu.test_device import MISSING, arrays_for, on_device
from tests.variants.points import run_time

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install triton")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(MISSING), reason=MISSING or "-")]

TOLERANCES = {"float16": 4e-3, "float32": 2e-5}
WITHOUT = {"luong_concat"}
"""The entries of the catalogue that have no kernel."""

n, m, d_k, d_v = sa.dims("n m d_k d_v")
ROW = (sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v))
LAYOUTS = [("row", "float16"), ("row", "float32"), ("column", "float16")]


def fused(mask: Any = None, **options: Any) -> Any:
    formula = sa.attention(*ROW, layout="row", mask=mask)
    return sa.lambdify(ROW, formula, backend="cupy", plan="fused", **options)


@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
@pytest.mark.parametrize("name", sorted(set(sa.formulas()) - WITHOUT))
def test_the_catalogue_agrees_with_the_cpu(name: str, layout: str, dtype: str) -> None:
    formula = sa.formula(name, layout=layout)
    arrays = arrays_for(formula.inputs, [(2, 3)], dtype)
    more = run_time(name)
    expected = sa.lambdify(formula.inputs, formula)(*(a.astype(np.float64) for a in arrays), **more)
    masks = {mask.label: on_device(more[mask.label])[0] for mask in formula.masks}
    f = sa.lambdify(formula.inputs, formula, backend="cupy", plan="fused")
    found = f(*on_device(*arrays), **(more | masks))
    assert found.dtype == dtype
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(found.get(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    "mask", [None, sa.causal("bottom_right"), sa.window(100, "top_left"), sa.keep()], ids=str
)
def test_many_blocks_with_odd_sizes(mask: Any, dtype: str) -> None:
    random = np.random.default_rng(0)
    shapes = ((2, 3, 1301, 64), (2, 1, 1777, 64), (3, 1777, 65))
    arrays = [random.normal(size=shape).astype(dtype) for shape in shapes]
    named = {"keep": random.random((1301, 1777)) < 0.5} if mask == sa.keep() else {}
    formula = sa.attention(*ROW, layout="row", mask=mask)
    on_host = sa.lambdify(ROW, formula, returns=("output", "lse"))
    expected, sums = on_host(*(x.astype(np.float64) for x in arrays), **named)
    given = {name: on_device(array)[0] for name, array in named.items()}
    found, lse = fused(mask, returns=("output", "lse"))(*on_device(*arrays), **given)
    tolerance = 2 * TOLERANCES[dtype]
    np.testing.assert_allclose(found.get(), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(lse.get(), sums, rtol=tolerance, atol=tolerance)


def test_what_is_masked_out_has_no_influence() -> None:
    random = np.random.default_rng(1)
    q, k, v = (random.normal(size=s).astype(np.float16) for s in ((9, 16), (13, 16), (13, 16)))
    keep = random.random((9, 13)) < 0.6
    keep[4], keep[:, [3, 12]] = False, False
    formula = sa.attention(*ROW, layout="row", mask=sa.keep())
    expected = sa.lambdify(ROW, formula)(*(x.astype(np.float64) for x in (q, k, v)), keep=keep)
    k[3], v[3], v[12] = np.nan, np.nan, np.inf
    found = fused(sa.keep())(*on_device(q, k, v), keep=on_device(keep)[0]).get()
    np.testing.assert_allclose(found, expected, rtol=4e-3, atol=4e-3)
    assert not found[4].any()


def test_views_of_other_strides() -> None:
    random = np.random.default_rng(2)
    arrays = [random.normal(size=(2, 200, 64)).astype(np.float16) for _ in range(3)]
    q, k, v = on_device(*arrays)
    given = q[:, ::-1], k.swapaxes(-1, -2).copy().swapaxes(-1, -2), v[..., ::2]
    formula = sa.attention(*ROW, layout="row")
    q, k, v = (x.astype(np.float64) for x in arrays)
    expected = sa.lambdify(ROW, formula)(q[:, ::-1], k, v[..., ::2])
    np.testing.assert_allclose(fused()(*given).get(), expected, rtol=4e-3, atol=4e-3)


def test_rows_and_arrays_beyond_two_to_the_31() -> None:
    """One row of 2**25 + 1 keys for 64 queries: 2**31 + 64 scores; values are ones."""
    cupy = pytest.importorskip("cupy")
    keys = 2**25 + 1
    q = cupy.zeros((64, 16), cupy.float16)
    k, v = cupy.zeros((keys, 16), cupy.float16), cupy.ones((keys, 16), cupy.float16)
    np.testing.assert_allclose(fused()(q, k, v).get(), 1, rtol=1e-3)
    q, k, v = (cupy.ones((2**16 + 1, 1, 2**15), cupy.float16)[..., :16] for _ in range(3))
    np.testing.assert_allclose(fused()(q, k, v).get(), 1, rtol=1e-3)


def test_nothing_but_the_result_is_taken() -> None:
    cupy = pytest.importorskip("cupy")
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        q, k, v = (cupy.ones((16, 16384, 128), cupy.float16) for _ in range(3))
        before = pool.total_bytes()
        found = fused(sa.causal("top_left"))(q, k, v)
        taken = pool.total_bytes() - before - found.nbytes
    assert taken < 2**20


def test_the_plan_that_suits_a_call() -> None:
    f = sa.lambdify(ROW, sa.attention(*ROW, layout="row"), backend="cupy")
    for dtype, expected in (("float16", "fused"), ("float64", "blocked")):
        q, k, v = on_device(*(np.ones((8, 512, 64), dtype) for _ in range(3)))
        sizes = {"n": 512, "m": 512, "d_k": 64, "d_v": 64}
        assert f._plans.suited(sizes, (q, k, v), {}).source is f._plans.by_name[expected]
        np.testing.assert_allclose(f(q, k, v).get(), 1, rtol=1e-3)
