"""Masked attention in numbers, against float64 loops by hand and against PyTorch."""

import math
import re
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.nodes import Mask
from tests import loops

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("each_plan")

d_k, d_v, n, m, w = sa.dims("d_k d_v n m w")
COLUMN = (sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m))
ROW = (sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v))
D_K, D_V = 4, 3

# A mask, and whether query i of n may attend to key j of m, given the two boolean arrays.
Allowed = Callable[[int, int, int, int, Array, Array], bool]
MASKS: dict[Mask, Allowed] = {
    sa.causal("top_left"): lambda i, j, n, m, keep, padding: j <= i,
    sa.causal("bottom_right"): lambda i, j, n, m, keep, padding: j <= i + m - n,
    sa.window(2, "top_left"): lambda i, j, n, m, keep, padding: abs(i - j) < 2,
    sa.window(w, "bottom_right"): lambda i, j, n, m, keep, padding: abs(i + m - n - j) < 2,
    sa.prefix(3): lambda i, j, n, m, keep, padding: j < 3,
    ~sa.prefix(5): lambda i, j, n, m, keep, padding: j >= 5,
    sa.padding(): lambda i, j, n, m, keep, padding: padding[j],
    sa.keep(): lambda i, j, n, m, keep, padding: keep[i, j],
    ~sa.keep(): lambda i, j, n, m, keep, padding: not keep[i, j],
    sa.keep() & sa.padding(): lambda i, j, n, m, keep, padding: keep[i, j] and padding[j],
    sa.prefix(2) | sa.causal("bottom_right") & sa.padding(): (
        lambda i, j, n, m, keep, padding: j < 2 or (j <= i + m - n and padding[j])
    ),
}
SIZES = [(5, 7), (7, 5), (6, 6), (1, 4), (4, 1)]

each_mask = pytest.mark.parametrize("mask", MASKS, ids=str)
each_layout = pytest.mark.parametrize("layout", ["column", "row"])


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def attend(mask: Mask, layout: str, **options: Any) -> Any:
    inputs = COLUMN if layout == "column" else ROW
    return sa.lambdify(inputs, sa.attention(*inputs, mask=mask, layout=layout), **options)


def arrays(queries: int, keys: int, seed: int, batch: tuple[int, ...] = ()) -> list[Array]:
    """Queries, keys and values as rows, a boolean for each pair, and one for each key.

    Some query may attend to nothing.
    """
    random = np.random.default_rng(seed)
    shapes = ((queries, D_K), (keys, D_K), (keys, D_V))
    keep = random.random((*batch, queries, keys)) < 0.6
    keep[..., queries // 2, :] = False
    return [
        *(random.normal(size=(*batch, *shape)) for shape in shapes),
        keep,
        random.random((*batch, keys)) < 0.7,
    ]


def by_hand(allowed: Allowed, q: Array, k: Array, v: Array, keep: Array, padding: Array) -> Array:
    """One query after another: softmax over the keys that it may attend to, zero if none."""
    queries, keys = len(q), len(k)
    out = np.zeros((queries, v.shape[1]))
    for i in range(queries):
        js = [j for j in range(keys) if allowed(i, j, queries, keys, keep, padding)]
        scores = [loops.dot(q[i], k[j]) / math.sqrt(q.shape[1]) for j in js]
        for weight, j in zip(loops.softmax_of(scores), js, strict=True):
            for c in range(v.shape[1]):
                out[i, c] += weight * float(v[j, c])
    return out


def called(f: Any, layout: str, q: Array, k: Array, v: Array, keep: Array, padding: Array) -> Array:
    """The function on arrays of rows, its result as rows."""
    given = {"keep": keep, "padding": padding, "w": 2}
    keywords = {
        name: given[name] for name in ("keep", "padding", "w") if name in f.__signature__.parameters
    }
    turn = (lambda a: a.swapaxes(-1, -2)) if layout == "column" else (lambda a: a)
    return turn(f(turn(q), turn(k), turn(v), **keywords))


@each_mask
@each_layout
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_mask_is_the_loops(mask: Mask, layout: str, sizes: tuple[int, int]) -> None:
    given = arrays(*sizes, seed=1)
    found = called(attend(mask, layout), layout, *given)
    np.testing.assert_allclose(found, by_hand(MASKS[mask], *given), rtol=1e-12, atol=1e-14)


@each_mask
@each_layout
def test_batches_broadcast(mask: Mask, layout: str) -> None:
    q, k, v, keep, padding = arrays(5, 7, seed=2, batch=(2, 3))
    given = [q[:1, :1], k[:, :1], v[0, :1], keep, padding[:1]]
    found = called(attend(mask, layout), layout, *given)
    uses = {a.label for a in sa.attention(*ROW, mask=mask).booleans()}
    batch = (2, 3) if uses & {"keep"} else (2, 3) if uses else (2, 1)
    assert found.shape == (*batch, 5, D_V)
    for at in product(*map(range, batch)):
        one = [a[tuple(min(x, s - 1) for x, s in zip(at, a.shape, strict=False))] for a in given]
        one[2] = v[0, 0]
        expected = by_hand(MASKS[mask], *one)
        np.testing.assert_allclose(found[at], expected, rtol=1e-12, atol=1e-14)


@each_mask
@each_layout
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float16", 2e-3)])
def test_dtypes_are_kept(mask: Mask, layout: str, dtype: str, tolerance: float) -> None:
    *matrices, keep, padding = arrays(5, 7, seed=3)
    given = [*(a.astype(dtype) for a in matrices), keep, padding]
    found = called(attend(mask, layout), layout, *given)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, by_hand(MASKS[mask], *given), rtol=0, atol=tolerance)


@each_layout
def test_inputs_are_not_written(layout: str) -> None:
    given = arrays(5, 7, seed=4)
    copies = [a.copy() for a in given]
    for array in given:
        array.flags.writeable = False
    called(attend(sa.keep() & sa.padding(), layout), layout, *given)
    for array, before in zip(given, copies, strict=True):
        np.testing.assert_array_equal(array, before)


# What is masked out does not matter, whatever it is.

BAD = [math.nan, math.inf, -math.inf, 1e308]


@each_mask
@each_layout
@pytest.mark.parametrize("bad", BAD)
def test_keys_that_nobody_may_attend_to_do_not_leak(mask: Mask, layout: str, bad: float) -> None:
    q, k, v, keep, padding = arrays(5, 7, seed=5)
    keep[:, 4] = padding[4] = False
    if ~sa.keep() == mask:
        keep[:, 4] = True
    allowed = MASKS[mask]
    dead = [j for j in range(7) if not any(allowed(i, j, 5, 7, keep, padding) for i in range(5))]
    expected = by_hand(allowed, q, k, v, keep, padding)
    k[dead], v[dead] = bad, bad
    found = called(attend(mask, layout), layout, q, k, v, keep, padding)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@each_mask
@each_layout
@pytest.mark.parametrize("bad", BAD[:3])
def test_a_bad_value_reaches_those_alone_that_attend_to_it(
    mask: Mask, layout: str, bad: float
) -> None:
    q, k, v, keep, padding = arrays(5, 7, seed=6)
    allowed = MASKS[mask]
    for j in range(7):
        expected = by_hand(allowed, q, k, v, keep, padding)
        worse = v.copy()
        worse[j, 1] = bad
        reached = [i for i in range(5) if allowed(i, j, 5, 7, keep, padding)]
        expected[reached, 1] = bad
        found = called(attend(mask, layout), layout, q, k, worse, keep, padding)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@each_layout
def test_inf_and_minus_inf_together_are_no_number(layout: str) -> None:
    q, k, v, keep, padding = arrays(3, 4, seed=7)
    keep[:] = [[1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0]]
    v[0, 0], v[2, 0], v[3] = math.inf, -math.inf, math.nan
    found = called(attend(sa.keep(), layout), layout, q, k, v, keep, padding)
    assert found[0, 0] == math.inf
    assert found[1, 0] == -math.inf
    assert np.isnan(found[2, 0])
    assert np.isfinite(found[:, 1:]).all()


@pytest.mark.parametrize(
    "expr",
    [
        lambda W, P, V: W @ V @ P,
        lambda W, P, V: W @ (V @ P),
        lambda W, P, V: W @ (P.T @ V.T).T,
        lambda W, P, V: 2 * W @ V @ P * 3,
    ],
)
def test_longer_products_do_not_leak_either(expr: Any) -> None:
    Q, K, V = COLUMN
    W = sa.matrix("W", d_v, d_v)
    P = sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0, mask=sa.keep())
    q, k, v, keep, padding = arrays(5, 7, seed=8)
    weight = np.random.default_rng(9).normal(size=(D_V, D_V))
    f = sa.lambdify([W, Q, K, V], expr(W, P, V))
    times = 6 if "3" in sa.text(expr(W, P, V)).split()[-1] else 1
    keep[:, 2] = False
    expected = times * weight @ by_hand(MASKS[sa.keep()], q, k, v, keep, padding).T
    v[2] = math.nan
    np.testing.assert_allclose(
        f(weight, q.T, k.T, v.T, keep=keep), expected, rtol=1e-12, atol=1e-13
    )


# The corpus of known mistakes.


def test_a_fully_masked_row_is_zero() -> None:
    f = attend(sa.keep(), "row")
    k, v = np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[1.0, 2], [3, 4], [5, 6]])
    found = f(np.ones((2, 2)), k, v, keep=np.array([[True] * 3, [False] * 3]))
    expected = [[3.5104695304536615, 4.510469530453662], [0.0, 0.0]]
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-13)


def test_true_means_may_attend() -> None:
    f = attend(sa.keep(), "row")
    one = np.zeros((1, 1)), np.zeros((2, 1)), np.array([[1.0], [2.0]])
    assert f(*one, keep=np.array([[True, False]])) == 1.0


def test_alignments_of_unequal_sizes() -> None:
    left, right = attend(sa.causal("top_left"), "row"), attend(sa.causal("bottom_right"), "row")
    v = np.arange(5.0)[:, None]
    wide = np.zeros((2, 1)), np.zeros((5, 1)), v
    assert left(*wide).ravel().tolist() == [0.0, 0.5]
    assert right(*wide).ravel().tolist() == [1.5, 2.0]
    tall = np.zeros((5, 1)), np.zeros((2, 1)), v[1:3]
    assert left(*tall).ravel().tolist() == [1.0, 1.5, 1.5, 1.5, 1.5]
    assert right(*tall).ravel().tolist() == [0.0, 0.0, 0.0, 1.0, 1.5]


def test_a_masked_key_does_not_win_below_any_sentinel() -> None:
    S = sa.matrix("S", n, m)
    f = sa.lambdify([S], sa.softmax(S, axis=1, mask=sa.keep()))
    found = f(np.array([[-60000.0, -60001, 0]]), keep=np.array([[True, True, False]]))
    np.testing.assert_allclose(found @ [1, 2, 3], [1.2689414213699952], rtol=1e-14, atol=1e-13)


@each_layout
def test_empty_axes(layout: str) -> None:
    f = attend(sa.causal("bottom_right") & sa.padding(), layout)
    for queries, keys in ((3, 0), (0, 3), (0, 0)):
        q, k, v = np.ones((queries, 4)), np.ones((keys, 4)), np.ones((keys, 2))
        found = called(f, layout, q, k, v, np.ones((0, 0), bool), np.ones(keys, bool))
        assert found.shape == (queries, 2)
        assert not found.any()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1)], ids=str)
def test_axes_of_size_one(shape: tuple[int, int], axis: int) -> None:
    S = sa.matrix("S", *shape)
    for mask, allowed in MASKS.items():
        if w in mask.free_symbols:
            continue
        queries, keys = shape[::-1] if axis == 0 else shape
        *_, keep, padding = arrays(queries, keys, seed=19)
        node = sa.softmax(S, axis=axis, mask=mask)
        given = {a.label: {"keep": keep, "padding": padding}[a.label] for a in node.booleans()}
        found = sa.lambdify([S], node)(np.zeros(shape), **given)
        pairs = np.array(
            [
                [bool(allowed(i, j, queries, keys, keep, padding)) for j in range(keys)]
                for i in range(queries)
            ]
        )
        expected = pairs / np.maximum(pairs.sum(axis=1, keepdims=True), 1)
        np.testing.assert_allclose(found, expected.T if axis == 0 else expected)


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
@each_layout
@pytest.mark.parametrize("sizes", [(5, 7), (7, 5)], ids=str)
def test_torch_computes_the_same(layout: str, sizes: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")
    attention = torch.nn.functional.scaled_dot_product_attention
    q, k, v, keep, padding = arrays(*sizes, seed=10, batch=(2,))
    tensors = [torch.from_numpy(a) for a in (q, k, v)]
    causal = attention(*tensors, is_causal=True).numpy()
    found = called(attend(sa.causal("top_left"), layout), layout, q, k, v, keep, padding)
    np.testing.assert_allclose(found, causal, rtol=1e-10, atol=1e-13)
    both = keep & padding[:, None, :]
    expected = attention(*tensors, attn_mask=torch.from_numpy(both)).numpy()
    found = called(attend(sa.keep() & sa.padding(), layout), layout, q, k, v, keep, padding)
    some = both.any(axis=-1)
    np.testing.assert_allclose(found[some], expected[some], rtol=1e-10, atol=1e-13)
    assert not found[~some].any()


# Other ways to run them.


@each_mask
@each_layout
def test_the_cupy_source_computes_the_same(mask: Mask, layout: str) -> None:
    f = attend(mask, layout, backend="cupy")
    assert "initial=" not in f.source
    namespace: dict[str, Any] = {}
    exec(f.source.replace("import cupy as", "import numpy as"), namespace)
    run = namespace["compute"]
    run.__signature__ = f.__signature__
    for sizes in ((5, 7), (7, 5)):
        given = arrays(*sizes, seed=11)
        found = called(run, layout, *given)
        np.testing.assert_allclose(found, by_hand(MASKS[mask], *given), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mask", [x for x in MASKS if w not in x.free_symbols], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_plain_sympy_lambdify_and_indicators(mask: Mask, axis: int) -> None:
    """Positions are read off the scores; the arrays of masks are SymPy symbols of their names."""
    S = sa.matrix("S", *((m, n) if axis == 0 else (n, m)))
    *_, keep, padding = arrays(5, 7, seed=12)
    scores = np.random.default_rng(13).normal(size=(7, 5) if axis == 0 else (5, 7))
    node = sa.softmax(S, axis=axis, mask=mask)
    ones = sa.hadamard(sa.indicator(mask, *S.shape, axis=axis), S)
    names = {"keep": keep, "padding": padding}
    given = [names[a.label] for a in node.booleans()]
    symbols = [sympy.Symbol(a.label) for a in node.booleans()]
    plain = sympy.lambdify([S, *symbols, n, m], node, "numpy")(scores, *given, 5, 7)
    keywords = {a.label: names[a.label] for a in node.booleans()}
    np.testing.assert_allclose(
        plain, sa.lambdify([S], node)(scores, **keywords), rtol=1e-14, atol=1e-13
    )
    allowed = np.array(
        [[MASKS[mask](i, j, 5, 7, keep, padding) for j in range(7)] for i in range(5)]
    )
    allowed = allowed.T if axis == 0 else allowed
    found = sa.lambdify([S], ones)(scores, **keywords)
    np.testing.assert_array_equal(found, np.where(allowed, scores, 0))


# The door.


def test_a_call_without_the_booleans_is_refused() -> None:
    f = attend(sa.keep() & sa.padding(), "column")
    q, k, v, keep, padding = arrays(5, 7, seed=14)
    with pytest.raises(sa.CallError, match="padding is missing"):
        f(q.T, k.T, v.T, keep=keep)
    with pytest.raises(sa.CallError, match="takes 3 inputs by position"):
        f(q.T, k.T, v.T, keep)
    with pytest.raises(sa.CallError, match="did you mean keep"):
        f(q.T, k.T, v.T, kept=keep, padding=padding)


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        (lambda keep: keep.astype(int), "keep == 1, if 1 means that it may attend"),
        (lambda keep: keep.astype("uint8"), "booleans, True where it may attend"),
        (
            lambda keep: np.where(keep, 0, -np.inf),
            r"sa.keep_from_additive\(keep\), if it is 0 and -inf",
        ),
        (lambda keep: keep.tolist(), r"np.asarray\(keep, dtype=bool\)"),
        (lambda keep: keep.astype(object), "booleans"),
        (lambda keep: np.ma.masked_array(keep), "a masked array"),
    ],
)
def test_numbers_are_no_booleans(wrong: Any, pointer: str) -> None:
    q, k, v, keep, _ = arrays(5, 7, seed=15)
    with pytest.raises(sa.InputError, match=pointer):
        attend(sa.keep(), "column")(q.T, k.T, v.T, keep=wrong(keep))


@each_layout
def test_shapes_are_queries_by_keys_in_either_layout(layout: str) -> None:
    q, k, v, keep, padding = arrays(5, 7, seed=16)
    f = attend(sa.keep() & sa.padding(), layout)
    with pytest.raises(sa.InputShapeError, match="which fits keepᵀ"):
        called(f, layout, q, k, v, keep.T, padding)
    with pytest.raises(sa.InputShapeError, match="padding's keys"):
        called(f, layout, q, k, v, keep, padding[:6])
    with pytest.raises(sa.InputShapeError, match="keep needs at least two axes"):
        called(f, layout, q, k, v, padding, padding)
    q, k, v = (np.stack([a] * 2) for a in (q, k, v))
    with pytest.raises(sa.InputShapeError, match="do not broadcast"):
        called(f, layout, q, k, v, np.stack([keep] * 3), padding)


def test_names_that_clash_are_refused() -> None:
    S, T = sa.matrix("S", m, n), sa.matrix("T", m, m)
    with pytest.raises(sa.SignatureError, match=r"the masks keep\(\) are of"):
        sa.lambdify(
            [S, T],
            sa.softmax(T, axis=0, mask=sa.keep()) @ sa.softmax(S, axis=0, mask=sa.keep()),
        )
    keep = sa.matrix("keep", m, n)
    with pytest.raises(sa.SignatureError, match="would both be called keep"):
        sa.lambdify([keep], sa.softmax(keep, axis=0, mask=sa.keep()))


def test_the_signature_says_the_booleans() -> None:
    f = attend(sa.window(w, "top_left") & sa.keep() & sa.padding(), "row")
    assert str(f.__signature__) == "(Q, K, V, *, keep, padding, w, workers=None, out=None)"
    assert "keep: (…, n, m) of booleans, True where it may attend" in (f.__doc__ or "")
    q, k, v, keep, padding = arrays(5, 7, seed=17)
    with pytest.raises(sa.InputShapeError, match="w; give each by name"):
        f(q, k, v, keep=keep, padding=padding)


def test_sizes_of_masks_are_positive_as_where_they_are_numbers() -> None:
    q, k, v, *_ = arrays(5, 7, seed=17)
    for width, name in ((w, "w"), (2 * w, "2*w")):
        f = attend(sa.window(width, "top_left"), "row")
        with pytest.raises(sa.SizeError, match=f"^{re.escape(name)} must be a positive integer"):
            f(q, k, v, w=0)
        assert f(q, k, v, w=1).shape == f(q, k, v, w=7).shape
    of_all = attend(sa.window(n, "top_left"), "row")  # as wide as there are queries, if any
    assert of_all(q[:0], k, v).shape == (0, v.shape[1])


def test_an_array_that_has_to_be_repeated_is_told_how() -> None:
    q, k, v, keep, padding = arrays(5, 7, seed=17)
    f = attend(sa.keep(), "row")
    for given, hint in (
        (padding[None, :], "np.broadcast_to(keep, (5, 7)); for the same keys"),
        (np.stack([keep[:, :1]] * 2), "np.broadcast_to(keep, (2, 5, 7))"),
        (padding, "write sa.padding() in the formula"),
    ):
        with pytest.raises(sa.InputShapeError, match=re.escape(hint)):
            f(q, k, v, keep=given)
    with pytest.raises(sa.InputShapeError) as refused:
        f(q, k, v, keep=padding[None, 1:])
    assert not refused.value.hint
    found = f(q, k, v, keep=np.broadcast_to(padding[None, :], (5, 7)))
    np.testing.assert_allclose(found, attend(sa.padding(), "row")(q, k, v, padding=padding))


# Masks of other libraries.


def test_masks_of_other_libraries() -> None:
    *_, keep, _ = arrays(5, 7, seed=18)
    assert np.array_equal(sa.keep_from_excluded(~keep), keep)
    for dtype in ("float16", "float32", "float64"):
        bias = sa.additive_from_keep(keep, dtype)
        assert bias.dtype == dtype
        assert np.array_equal(bias, np.where(keep, 0, -np.inf))
        assert np.array_equal(sa.keep_from_additive(bias), keep)


@pytest.mark.parametrize(
    "call",
    [
        lambda: sa.keep_from_excluded(np.array([0, 1])),
        lambda: sa.keep_from_excluded([True]),
        lambda: sa.keep_from_additive(np.array([True])),
        lambda: sa.keep_from_additive(np.array([0, -1e9])),
        lambda: sa.keep_from_additive(np.array([0.0, np.nan])),
        lambda: sa.keep_from_additive(np.array([0.0, 0.5])),
        lambda: sa.keep_from_additive(np.array([0.0, np.inf])),
        lambda: sa.additive_from_keep(np.array([1.0]), np.float32),
    ],
)
def test_what_could_be_either_is_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(sa.InputError):
        call()
