"""`returns=` and `out=`: the sums and weights of the softmax, and results in a caller's memory."""

import math
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.errors import (
    CallError,
    InputError,
    InputShapeError,
    NotSupportedError,
    SignatureError,
    UnknownNameError,
)
from tests.codegen.blocks import in_small_blocks
from tests.loops import softmax_of

D_K, D_V, N, M, H = 4, 3, 5, 7, 2

d_k, d_v, n, m, h = sa.dims("d_k d_v n m h")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
QR, KR, VR = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
S = K.T @ Q / sa.sqrt(d_k)
COLUMN = V @ sa.softmax(S, axis=0)
CAUSAL = sa.softmax(QR @ KR.T / sa.sqrt(d_k), axis=1, mask=sa.causal("top_left")) @ VR
KEEP = sa.softmax(QR @ KR.T / sa.sqrt(d_k), axis=1, mask=sa.keep()) @ VR

Array = np.ndarray[Any, Any]
ALL = ("output", "lse", "weights")


def columns(*batches: tuple[int, ...], dtype: Any = "float64", m: int = M) -> list[Array]:
    random = np.random.default_rng(0)
    shapes = (D_K, N), (D_K, m), (D_V, m)
    batches = batches or ((), (), ())
    return [
        (2 * random.normal(size=(*batch, *shape))).astype(dtype)
        for batch, shape in zip(batches, shapes, strict=True)
    ]


def rows(*batches: tuple[int, ...], m: int = M) -> list[Array]:
    return [array.swapaxes(-1, -2) for array in columns(*batches, m=m)]


def by_hand(q: Array, k: Array, v: Array, seen: Any = lambda i, j: True) -> tuple[Array, ...]:
    """Output, log of the sums and weights, in rows, by loops over floats."""
    count, keys = len(q), len(k)
    output, lse = np.zeros((count, v.shape[1])), np.zeros(count)
    weights = np.zeros((count, keys))
    for i in range(count):
        at = [j for j in range(keys) if seen(i, j)]
        scores = [math.fsum(map(float, q[i] * k[j])) / math.sqrt(q.shape[1]) for j in at]
        lse[i] = math.log(math.fsum(map(math.exp, scores))) if at else -math.inf
        for j, weight in zip(at, softmax_of(scores), strict=True):
            weights[i, j] = weight
            output[i] += weight * v[j]
    return output, lse, weights


# Weights are one matrix, which the blocked plan never makes.
PLANS = {"direct": ALL, "blocked": ALL[:2]}
each_plan = pytest.mark.parametrize(("plan", "returns"), PLANS.items(), ids=PLANS)


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """These sizes need several strips of two queries, and several blocks of three keys."""
    in_small_blocks(monkeypatch, tile=6, rows=2)


@each_plan
@pytest.mark.usefixtures("_small_blocks")
def test_all_three_in_the_column_layout(plan: str, returns: Any) -> None:
    q, k, v = columns()
    f = sa.lambdify([Q, K, V], COLUMN, returns=returns, plan=plan)
    wanted = by_hand(q.T, k.T, v.T)
    for one, other in zip(f(q, k, v), (wanted[0].T, wanted[1], wanted[2].T), strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@each_plan
@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("scale", [1, 200])
def test_all_three_under_a_mask(plan: str, returns: Any, scale: float) -> None:
    q, k, v = rows()
    q *= scale
    found = sa.lambdify([QR, KR, VR], CAUSAL, returns=returns, plan=plan)(q, k, v)
    if scale > 1:  # exponentials of such scores overflow in the loops
        scores = np.where(np.tri(N, M, dtype=bool), q @ k.T / 2, -np.inf)
        top = scores.max(axis=1)
        sums = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
        np.testing.assert_allclose(found[1], sums, rtol=1e-13)
        return
    for one, other in zip(found, by_hand(q, k, v, lambda i, j: j <= i), strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)


@each_plan
@pytest.mark.usefixtures("_small_blocks")
def test_a_query_without_keys(plan: str, returns: Any) -> None:
    q, k, v = rows()
    keep = np.random.default_rng(1).random((N, M)) < 0.5
    keep[2] = False
    k[3], keep[:, 3] = np.nan, False  # nobody sees it
    found = sa.lambdify([QR, KR, VR], KEEP, returns=returns, plan=plan)(q, k, v, keep=keep)
    wanted = by_hand(q, k, v, lambda i, j: keep[i, j])
    assert wanted[1][2] == -np.inf
    for one, other in zip(found, wanted, strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)


@each_plan
@pytest.mark.parametrize(("inputs", "formula"), [([Q, K, V], COLUMN), ([QR, KR, VR], CAUSAL)])
def test_no_keys_at_all(inputs: Any, formula: Any, plan: str, returns: Any) -> None:
    arrays = columns(m=0) if formula is COLUMN else rows(m=0)
    output, lse, *weights = sa.lambdify(inputs, formula, returns=returns, plan=plan)(*arrays)
    assert not output.any()
    assert lse.tolist() == [-np.inf] * N
    assert all(weight.size == 0 for weight in weights)


@each_plan
def test_scores_of_minus_infinity(plan: str, returns: Any) -> None:
    """An input may hold −∞: without a mask, a query with nothing else has no softmax."""
    B = sa.matrix("B", n, m)
    f = sa.lambdify([B, VR], sa.softmax(B, axis=1) @ VR, returns=returns, plan=plan)
    b, v = np.zeros((N, M)), rows()[2]
    b[1], b[2, 1:] = -np.inf, -np.inf
    lse = f(b, v)[1]
    np.testing.assert_allclose(lse, [np.log(M), np.nan, 0, np.log(M), np.log(M)])


@each_plan
def test_an_empty_batch(plan: str, returns: Any) -> None:
    q, k, v = columns((), (), (0, 2))
    output, lse, *_ = sa.lambdify([Q, K, V], COLUMN, returns=returns, plan=plan)(q, k, v)
    assert (output.shape, lse.shape) == ((0, 2, D_V, N), (0, 2, N))


def test_blocks_hold_no_weights() -> None:
    with pytest.raises(NotSupportedError, match='returns="weights", which are one matrix'):
        sa.lambdify([Q, K, V], COLUMN, returns=ALL, plan="blocked")
    f = sa.lambdify([Q, K, V], COLUMN, returns=ALL)
    assert (f.plan, sa.lambdify([Q, K, V], COLUMN, returns="lse").plan) == ("direct", "auto")
    assert 'returns="weights", which are one matrix' in f.plan_reason


@each_plan
def test_what_comes_after_the_sum_may_have_more_leading_axes(plan: str, returns: Any) -> None:
    W = sa.matrix("W", d_v, d_v)
    f = sa.lambdify([Q, K, V, W], W @ COLUMN, returns=returns, plan=plan)
    q, k, v = columns((2,), (), ())
    w = np.random.default_rng(5).normal(size=(3, 1, D_V, D_V))
    output, lse, *_ = f(q, k, v, w)
    assert (output.shape, lse.shape) == ((3, 2, D_V, N), (3, 2, N))
    for a in range(2):
        np.testing.assert_allclose(lse[2, a], by_hand(q[a].T, k.T, v.T)[1], rtol=1e-13)


@pytest.mark.parametrize(
    "returns",
    [("lse", "output"), ("weights",), ("lse",), ("weights", "lse"), ("output",), "lse", ["lse"]],
)
def test_the_order_is_the_one_asked_for(returns: Any) -> None:
    q, k, v = columns()
    found = sa.lambdify([Q, K, V], COLUMN, returns=returns)(q, k, v)
    everything: dict[str, Any] = dict(
        zip(ALL, sa.lambdify([Q, K, V], COLUMN, returns=ALL)(q, k, v), strict=True)
    )
    names: Any = [returns] if isinstance(returns, str) else returns
    assert isinstance(found, tuple)
    for name, one in zip(names, found, strict=True):
        np.testing.assert_array_equal(one, everything[name])


def test_what_is_not_asked_for_is_not_computed() -> None:
    f = sa.lambdify([Q, K, V], COLUMN, returns="lse")
    assert "V @" not in f.source
    assert "returns: a tuple of\n        log Σ exp(scores)" in f.source
    assert "log" not in sa.lambdify([Q, K, V], COLUMN, returns=("output", "weights")).source


def test_heads_have_an_axis() -> None:
    i = sa.index("i", h)
    W = sa.family("W", h, d_k, d_k)
    head = V @ sa.softmax(K.T @ W[i] @ Q, axis=0)
    f = sa.lambdify([Q, K, V, W], sa.heads(head, i, axis=0), returns=ALL)
    blocked = sa.lambdify([Q, K, V, W], sa.heads(head, i, axis=0), returns="lse", plan="blocked")
    q, k, v = columns((6, 1), (2,), ())
    w = np.random.default_rng(2).normal(size=(H, D_K, D_K))
    output, lse, weights = f(q, k, v, w)
    assert output.shape == (6, 2, H * D_V, N)
    assert lse.shape == (6, 2, H, N)
    assert weights.shape == (6, 2, H, M, N)
    scores = np.einsum(
        "bckm,hkl,bcln->bchmn",
        np.broadcast_to(k, (6, 2, D_K, M)),
        w,
        np.broadcast_to(q, (6, 2, D_K, N)),
    )
    np.testing.assert_allclose(lse, np.log(np.exp(scores).sum(axis=-2)), rtol=1e-12)
    np.testing.assert_allclose(blocked(q, k, v, w)[0], lse, rtol=1e-12)
    np.testing.assert_allclose(weights, np.exp(scores - lse[..., None, :]), rtol=1e-12)


def test_weights_have_the_leading_axes_of_the_scores() -> None:
    q, k, v = columns((), (6, 1), (2,))
    output, lse, weights = sa.lambdify([Q, K, V], COLUMN, returns=ALL)(q, k, v)
    assert (output.shape, lse.shape) == ((6, 2, D_V, N), (6, 2, N))
    assert weights.shape == (6, 1, M, N)


def test_results_are_memory_of_their_own() -> None:
    for formula in (sa.softmax(S, axis=0), sa.softmax(S, axis=0).T, -sa.softmax(S, axis=0)):
        q, k, _ = columns()
        output, weights = sa.lambdify([Q, K], formula, returns=("output", "weights"))(q, k)
        assert not np.shares_memory(output, weights)
        np.testing.assert_allclose(weights.sum(axis=0), 1)


def test_large_scores() -> None:
    q, k, v = columns()
    lse = sa.lambdify([Q, K, V], COLUMN, returns="lse")(1e4 * q, k, v)[0]
    np.testing.assert_allclose(lse, (k.T @ q * 1e4 / 2).max(axis=0), rtol=1e-6)
    nan = sa.lambdify([Q, K, V], COLUMN, returns="lse")(np.full_like(q, np.nan), k, v)[0]
    assert np.isnan(nan).all()


def test_a_copy_returns_the_same() -> None:
    arrays = columns()
    f = sa.lambdify([Q, K, V], COLUMN, returns=("lse", "output"))
    for one, other in zip(pickle.loads(pickle.dumps(f))(*arrays), f(*arrays), strict=True):
        np.testing.assert_array_equal(one, other)


def test_lines_of_a_program() -> None:
    program = sa.Program(S=S, A=sa.softmax(S, axis=0), O=COLUMN)
    q, k, v = columns()
    found = sa.lambdify([Q, K, V], program, returns=ALL)(q, k, v)
    for one, other in zip(found, sa.lambdify([Q, K, V], COLUMN, returns=ALL)(q, k, v), strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_formulas_have_no_such_results() -> None:
    with pytest.raises(NotSupportedError, match="'lse' of a formula with no softmax"):
        sa.lambdify([Q, K], S, returns=("output", "lse"))
    twice = sa.softmax(S, axis=0) + sa.softmax(2 * S, axis=0)
    with pytest.raises(NotSupportedError, match="'weights' of a formula with 2 softmaxes"):
        sa.lambdify([Q, K], twice, returns="weights")
    assert len(sa.lambdify([Q, K], S, returns="output")(*columns()[:2])) == 1


def test_names_that_cannot_be_returned() -> None:
    with pytest.raises(UnknownNameError, match="'weight'; did you mean 'weights'"):
        sa.lambdify([Q, K, V], COLUMN, returns=("output", "weight"))
    with pytest.raises(SignatureError, match="asks for lse twice"):
        sa.lambdify([Q, K, V], COLUMN, returns=("lse", "output", "lse"))
    for other in (3, True, b"lse", [["lse"]]):
        with pytest.raises(UnknownNameError, match="there is no result named"):
            sa.lambdify([Q, K, V], COLUMN, returns=other)  # pyright: ignore[reportArgumentType]
    with pytest.raises(SignatureError, match="asks for nothing"):
        sa.lambdify([Q, K, V], COLUMN, returns=())


# Two bytes.


@each_plan
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_two_bytes_are_computed_in_four_and_rounded_once(
    name: str, plan: str, returns: Any
) -> None:
    if name == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes", reason="pip install ml_dtypes").bfloat16
    else:
        dtype = np.float16
    arrays = columns((6, 1), (2,), (), dtype=dtype)
    f = sa.lambdify([Q, K, V], COLUMN, returns=returns, plan=plan)
    output, lse, *weights = f(*arrays)
    assert (output.dtype, lse.dtype) == (dtype, np.float32)
    assert all(weight.dtype == dtype for weight in weights)
    exact = f(*(array.astype(np.float32) for array in arrays))
    np.testing.assert_array_equal(output, exact[0].astype(dtype))
    np.testing.assert_array_equal(lse, exact[1])
    for one, other in zip(weights, exact[2:], strict=True):
        np.testing.assert_array_equal(one, other.astype(dtype))
    out = np.empty(output.shape, dtype)
    assert f(*arrays, out=out)[0] is out
    np.testing.assert_array_equal(out, output)


def peak(call: Any) -> int:
    """The most bytes that are in use during a call, after another one of its kind."""
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_blocks_of_two_bytes_are_widened_one_by_one() -> None:
    """Neither keys, values nor a bias get a wider copy; what is used outside of blocks does."""
    B, W = sa.matrix("B", n, m), sa.matrix("W", d_k, d_k)
    formula = sa.softmax(QR @ W @ KR.T + B, axis=1, mask=sa.causal("top_left")) @ VR
    f = sa.lambdify([QR, KR, VR, B, W], formula, plan="blocked")
    assert "K.astype" not in f.source
    assert "V.astype" not in f.source
    assert "B.astype" not in f.source
    random = np.random.default_rng(6)
    shapes = (64, D_K), (20_000, D_K), (20_000, D_V), (64, 20_000), (D_K, D_K)
    arrays = [random.normal(size=shape).astype(np.float16) for shape in shapes]
    found = f(*arrays)
    exact = f(*(array.astype(np.float64) for array in arrays))
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-3)
    assert found.dtype == np.float16
    few = sa.lambdify([QR, KR, VR], sa.softmax(QR @ KR.T, axis=1) @ VR, plan="blocked")
    wide = (64, 64), (20_000, 64), (20_000, 64)
    q, k, v = (random.normal(size=shape).astype("f2") for shape in wide)
    assert peak(lambda: few(q, k, v)) < 3 * 2**20  # wider copies of both would be 10 MiB


def test_one_input_for_queries_and_keys() -> None:
    X = sa.matrix("X", n, d_k)
    f = sa.lambdify([X], sa.softmax(X @ X.T, axis=1) @ X, plan="blocked")
    x = rows()[0].astype(np.float16)
    np.testing.assert_array_equal(f(x), f(x.astype(np.float32)).astype(np.float16))


def test_bfloat16_is_mixed_with_nothing() -> None:
    dtype = pytest.importorskip("ml_dtypes", reason="pip install ml_dtypes").bfloat16
    q, k, v = columns(dtype=dtype)
    f = sa.lambdify([Q, K, V], COLUMN)
    with pytest.raises(InputError, match=r"K\.astype\(Q\.dtype\)"):
        f(q, k.astype(np.float32), v)
    with pytest.raises(InputError, match=r"K\.astype\(np\.float32\)"):
        f(q.astype(np.float32), k, v.astype(np.float32))


# A caller's memory.

F = sa.lambdify([Q, K, V], COLUMN)


def test_blocks_are_written_where_they_belong() -> None:
    arrays = [
        array.astype("float32") for array in np.random.default_rng(7).normal(size=(3, 32, 32))
    ]
    q = np.tile(arrays[0], (600, 1))
    f = sa.lambdify([QR, KR, VR], sa.softmax(QR @ KR.T, axis=1) @ VR, plan="blocked")
    out = np.empty_like(q)
    assert out.nbytes > 2**21
    assert peak(lambda: f(q, *arrays[1:], out=out)) < 2**20
    np.testing.assert_array_equal(out, f(q, *arrays[1:]))


@pytest.mark.parametrize("plan", PLANS)
def test_the_result_is_written_where_the_caller_wants_it(plan: str) -> None:
    F = sa.lambdify([Q, K, V], COLUMN, plan=plan)
    arrays = columns((6, 1), (2,), ())
    out = np.full((6, 2, D_V, N), np.nan)
    assert F(*arrays, out=out) is out
    np.testing.assert_array_equal(out, F(*arrays))
    view = np.full((6, 2, N, 2 * D_V), np.nan).swapaxes(-1, -2)[..., ::-2, ::-1]
    assert F(*arrays, out=view) is view
    np.testing.assert_array_equal(view, out)
    assert F(*arrays, out=None).shape == out.shape


def test_a_file_is_memory_too(tmp_path: Any) -> None:
    arrays = columns()
    out = np.memmap(tmp_path / "out", np.float64, "w+", shape=(D_V, N))
    assert F(*arrays, out=out) is out
    np.testing.assert_array_equal(np.asarray(out), F(*arrays))


def test_the_other_results_stay_their_own() -> None:
    arrays, out = columns(), np.empty((D_V, N))
    f = sa.lambdify([Q, K, V], COLUMN, returns=("weights", "output"))
    weights, output = f(*arrays, out=out)
    assert output is out
    np.testing.assert_array_equal(weights, f(*arrays)[0])
    with pytest.raises(CallError, match="no output that out= could take"):
        sa.lambdify([Q, K, V], COLUMN, returns="lse")(*arrays, out=out)


def test_what_cannot_be_written_to() -> None:
    q, k, v = columns((6, 1), (2,), ())
    shape = (6, 2, D_V, N)
    refused: dict[str, Any] = {
        r"^out is a list; give a numpy array": [1.0],
        r"^out is an array of dtype float32; give one of float64": np.empty(shape, np.float32),
        r"^out is an array of dtype int64": np.empty(shape, np.int64),
        r"^out is a read-only array": np.broadcast_to(0.0, shape),
        r"^out is an array whose entries may share memory": np.lib.stride_tricks.as_strided(
            np.empty(N), shape, (0, 0, 0, 8)
        ),
        r"^out is an array whose entries may share memory, such": np.lib.stride_tricks.as_strided(
            np.empty(100), shape, (64, 32, 8, 8)
        ),
    }
    for message, out in refused.items():
        with pytest.raises(InputError, match=message):
            F(q, k, v, out=out)
    for bad in ((D_V, N), (2, 6, D_V, N), (6, 2, N, D_V), (1, 6, 2, D_V, N)):
        with pytest.raises(InputShapeError) as error:
            F(q, k, v, out=np.empty(bad))
        assert str(error.value) == (
            f"the result has shape {shape}\n  out (…, d_v, n) has shape {bad}"
        )


def test_an_input_is_never_written_to() -> None:
    square = sa.lambdify([sa.matrix("X", n, n)], sa.matrix("X", n, n).T)
    x = np.arange(2.0 * N * N).reshape(2, N, N)
    for out in (x, x[::-1], x.swapaxes(-1, -2)):
        with pytest.raises(InputError, match=r"^out is in the memory of X; give memory of its own"):
            square(x, out=out)
    packed = np.arange(2.0 * N * N).reshape(N, 2, N)  # side by side is no overlap
    expected = packed[:, 0].T.copy()
    np.testing.assert_array_equal(square(packed[:, 0], out=packed[:, 1]), expected)
    keep = np.ones((N, M), bool)
    f = sa.lambdify([QR, KR, VR], KEEP)
    memory = np.zeros(N * M * 8, bool)
    keep = memory[: N * M].reshape(N, M)
    out = memory.view(np.float64)[: N * D_V].reshape(N, D_V)
    with pytest.raises(InputError, match="in the memory of keep"):
        f(*rows(), keep=keep, out=out)


def test_an_input_may_be_called_out() -> None:
    out = sa.matrix("out", n, m)
    f = sa.lambdify([out], 2 * out)
    assert f(out=np.ones((2, 3))).tolist() == [[2.0] * 3] * 2
    assert str(f.__signature__) == "(out)"
