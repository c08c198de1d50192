"""Every formula of the catalogue on a CUDA device, against float64 on the CPU."""

from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import pytest

import symattn as sa
from symattn.nodes import InputVector
from tests.variants.points import SIZES, run_time

TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3}
BATCHES = {"no batch": [()], "(2, 3)": [(2, 3)], "broadcast": [(3, 1), (1, 2), (2,), ()]}

d_k, d_v, n, m = sa.dims("d_k d_v n m")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
ATTENTION = V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0)


def missing_device() -> str:
    """Why there is no device to run on, or an empty text if there is one."""
    if find_spec("cupy") is None:
        return "CuPy is not installed: pip install 'symattn[cuda12]'"
    cupy = pytest.importorskip("cupy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"there is no CUDA device: {error}"
    return "" if count else "there is no CUDA device"


MISSING = missing_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(MISSING), reason=MISSING or "-")]


def on_device(*arrays: Any) -> list[Any]:
    cupy = pytest.importorskip("cupy")
    return [cupy.asarray(array) for array in arrays]


def arrays_for(symbols: Any, batches: list[tuple[int, ...]], dtype: str) -> list[Any]:
    random = np.random.default_rng(0)
    return [
        (
            random.normal(size=batches[k % len(batches)] + tuple(s.value(SIZES) for s in axes)) / 4
        ).astype(dtype)
        for k, symbol in enumerate(symbols)
        for axes in (symbol.sizes[:1] if isinstance(symbol, InputVector) else symbol.sizes,)
    ]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("layout", ["column", "row"])
@pytest.mark.parametrize("name", sa.formulas())
def test_the_catalogue_agrees_with_the_cpu(name: str, layout: str, dtype: str, batch: str) -> None:
    formula = sa.formula(name, layout=layout)
    arrays = arrays_for(formula.inputs, BATCHES[batch], dtype)
    more = run_time(name)
    on_host = sa.lambdify(formula.inputs, formula)
    expected = on_host(*(a.astype(np.float64) for a in arrays), **more)
    given = on_device(*arrays)
    masks = {mask.label: on_device(more[mask.label])[0] for mask in formula.masks}
    found = sa.lambdify(formula.inputs, formula, backend="cupy")(*given, **(more | masks))
    assert type(found) is type(given[0])
    assert found.dtype == dtype
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(found.get(), expected, rtol=tolerance, atol=tolerance)
    for array, before in zip(given, arrays, strict=True):
        np.testing.assert_array_equal(array.get(), before)


def test_no_keys_give_zeros() -> None:
    f = sa.lambdify([Q, K, V], ATTENTION, backend="cupy")
    for batch in ((), (2,)):
        shapes = ((*batch, 4, 2), (*batch, 4, 0), (*batch, 3, 0))
        found = f(*on_device(*(np.ones(shape) for shape in shapes)))
        np.testing.assert_array_equal(found.get(), np.zeros((*batch, 3, 2)))


def test_views_of_other_strides() -> None:
    f = sa.lambdify([Q, K, V], ATTENTION, backend="cupy")
    arrays = arrays_for((Q, K, V), [(2,)], "float64")
    q, k, v = on_device(*arrays)
    views = f(q[..., ::-1], k.swapaxes(-1, -2).copy().swapaxes(-1, -2), v[::-1])
    expected = sa.lambdify([Q, K, V], ATTENTION)(arrays[0][..., ::-1], arrays[1], arrays[2][::-1])
    np.testing.assert_allclose(views.get(), expected, rtol=1e-12, atol=1e-12)


def test_every_function_of_every_entry() -> None:
    functions = (sa.exp, sa.log, sa.tanh, sa.sin, sa.cos, sa.relu, sa.sigmoid, sa.silu)
    for function in (*functions, sa.softplus, sa.sqrt, sa.square, sa.reciprocal):
        q = np.random.default_rng(1).uniform(0.5, 2, size=(4, 5))
        for expr in (function(Q), function(Q + Q)):
            expected = sa.lambdify([Q], expr)(q)
            found = sa.lambdify([Q], expr, backend="cupy")(*on_device(q))
            np.testing.assert_allclose(found.get(), expected, rtol=1e-12, atol=1e-13)


def test_shapes_of_arrays_on_a_device_are_checked() -> None:
    cupy = pytest.importorskip("cupy")

    def scores(q: Any, k: Any) -> Any:
        return k.T @ q

    scores.__annotations__ = {"q": Annotated[cupy.ndarray, "d n"], "k": sa.M["d m"]}
    checked = sa.shapecheck(scores)
    assert checked(*on_device(np.ones((4, 5)), np.ones((4, 7)))).shape == (7, 5)
    with pytest.raises(sa.ShapeCheckError):
        checked(*on_device(np.ones((4, 5)), np.ones((7, 4))))
