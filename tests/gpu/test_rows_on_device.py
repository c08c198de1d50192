"""The blocked plan for CuPy on a CUDA device: numbers, memory, long rows."""

from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen.gpu import row_strips
from tests.gpu.test_device import MISSING, TOLERANCES, arrays_for, on_device
from tests.variants.points import run_time

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(MISSING), reason=MISSING or "-")]

WITHOUT = {"luong_concat"}
"""The entries of the catalogue that have no such plan."""

d_k, d_v, n, m = sa.dims("d_k d_v n m")
ROW = (sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v))


def in_strips(mask: Any = None, **options: Any) -> Any:
    formula = sa.attention(*ROW, layout="row", mask=mask, **options)
    return sa.lambdify(ROW, formula, backend="cupy", plan="blocked")


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("layout", ["column", "row"])
@pytest.mark.parametrize("name", sorted(set(sa.formulas()) - WITHOUT))
def test_the_catalogue_agrees_with_the_cpu(name: str, layout: str, dtype: str) -> None:
    formula = sa.formula(name, layout=layout)
    arrays = arrays_for(formula.inputs, [(2, 3)], dtype)
    more = run_time(name)
    expected = sa.lambdify(formula.inputs, formula)(*(a.astype(np.float64) for a in arrays), **more)
    masks = {mask.label: on_device(more[mask.label])[0] for mask in formula.masks}
    f = sa.lambdify(formula.inputs, formula, backend="cupy", plan="blocked")
    found = f(*on_device(*arrays), **(more | masks))
    assert found.dtype == dtype
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(found.get(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("mask", [None, sa.causal("bottom_right"), sa.keep()], ids=str)
def test_several_strips_with_odd_sizes(mask: Any, dtype: str) -> None:
    random = np.random.default_rng(0)
    shapes = ((2, 3, 1301, 33), (2, 1, 1777, 33), (3, 1777, 65))
    arrays = [random.normal(size=shape).astype(dtype) for shape in shapes]
    named = {"keep": random.random((1301, 1777)) < 0.5} if mask == sa.keep() else {}
    formula = sa.attention(*ROW, layout="row", mask=mask)
    expected = sa.lambdify(ROW, formula)(*(x.astype(np.float64) for x in arrays), **named)
    given = {name: on_device(array)[0] for name, array in named.items()}
    found = in_strips(mask)(*on_device(*arrays), **given).get()
    np.testing.assert_allclose(found, expected, rtol=10 * TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_what_is_masked_out_has_no_influence(dtype: str) -> None:
    random = np.random.default_rng(1)
    q, k, v = (random.normal(size=s).astype(dtype) for s in ((9, 5), (13, 5), (13, 3)))
    keep = random.random((9, 13)) < 0.6
    keep[4], keep[:, [3, 12]] = False, False
    formula = sa.attention(*ROW, layout="row", mask=sa.keep())
    expected = sa.lambdify(ROW, formula)(*(x.astype(np.float64) for x in (q, k, v)), keep=keep)
    k[3], v[3], v[12] = np.nan, np.nan, np.inf
    found = in_strips(sa.keep())(*on_device(q, k, v), keep=on_device(keep)[0]).get()
    np.testing.assert_allclose(found, expected, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
    assert not found[4].any()


def test_work_goes_to_the_stream_of_the_caller() -> None:
    cupy = pytest.importorskip("cupy")
    q, k, v = on_device(*(np.ones(s, np.float32) for s in ((64, 8), (2**14, 8), (2**14, 4))))
    f = in_strips()
    f(q, k, v)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        late = v * 0
        for _ in range(200):
            late += 1  # a product on another stream would read what is not there yet
        found = f(q, k, late)
    stream.synchronize()
    np.testing.assert_allclose(found.get(), 200, rtol=1e-6)


def test_rows_and_arrays_beyond_two_to_the_31() -> None:
    """One row of 2**25 + 1 keys for 64 queries: 2**31 + 64 scores; values are ones."""
    keys = 2**25 + 1
    cupy = pytest.importorskip("cupy")
    q = cupy.zeros((64, 16), cupy.float16)
    k, v = cupy.zeros((keys, 16), cupy.float16), cupy.ones((keys, 1), cupy.float16)
    np.testing.assert_array_equal(in_strips()(q, k, v).get(), 1)


def test_there_is_no_matrix_of_scores() -> None:
    cupy = pytest.importorskip("cupy")
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        q, k, v = (cupy.ones((16, 16384, 128), cupy.float16) for _ in range(3))
        before = pool.total_bytes()
        found = in_strips(sa.causal("top_left"))(q, k, v)
        taken = pool.total_bytes() - before - found.nbytes
    assert taken < 2 * row_strips.SCORES_BYTES
