"""What a call refuses, in the library and in a saved module alike, before anything is computed."""

import math
from fractions import Fraction
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import symattn as sa

Array = np.ndarray[Any, Any]

n, m, d_k, d_v, w, p = sa.dims("n m d_k d_v w p")
c, tau = sa.scalar("c"), sa.scalar("tau", positive=True)
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
SEEN = sa.keep() & (sa.window(w, "bottom_right") | sa.prefix(p))
SCORES = Q @ K.T / sa.sqrt(d_k) * sa.exp(c) / tau
N, M, D_K, D_V = 5, 7, 4, 3

random = np.random.default_rng(0)
q, k, v = (random.normal(size=(2, *shape)) for shape in ((N, D_K), (M, D_K), (M, D_V)))
GIVEN: dict[str, Any] = {
    "Q": q,
    "K": k,
    "V": v,
    "c": 0.5,
    "tau": 2,
    "keep": np.ones((N, M), bool),
    "w": 2,
    "p": 1,
}
F = sa.lambdify([Q, K, V, c, tau], sa.softmax(SCORES, axis=1, mask=SEEN) @ V)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The saved module, whose computations fail."""
    spec = spec_from_file_location("saved", F.save(tmp_path_factory.mktemp("saved") / "a.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def windows() -> Array:
    """Rows that are windows of one vector: they share entries."""
    return as_strided(np.zeros(100), (2, N, D_V), (80, 8, 8))


def fixed(array: Array) -> Array:
    array.flags.writeable = False
    return array


square = np.zeros((2, 20, 20))

REFUSED: dict[str, dict[str, Any]] = {
    "no worker": {"workers": 0},
    "less than none": {"workers": -1},
    "true workers": {"workers": True},
    "half a worker": {"workers": 2.5},
    "workers in words": {"workers": "2"},
    "a window in words": {"w": "2"},
    "a window of truth": {"w": True},
    "half a window": {"w": 2.5},
    "a negative window": {"w": -1},
    "a window of no keys": {"w": 0},
    "a prefix of no keys": {"p": 0},
    "a window beyond 64 bits": {"w": 2**63},
    "a window at the end of 64 bits": {"w": 2**63 - 1},
    "a window of NumPy beyond": {"w": np.uint64(2**63)},
    "a prefix beyond": {"p": 10**15},
    "a size that is another": {"n": 6},
    "a scalar in words": {"c": "2"},
    "a scalar of truth": {"c": np.True_},
    "no number": {"c": math.nan},
    "an infinity": {"c": math.inf},
    "an integer beyond floats": {"c": 10**400},
    "an exponential beyond floats": {"c": 1000},
    "not positive": {"tau": 0},
    "an array for a scalar": {"tau": np.asarray(2.0)},
    "out is an input": {"V": square[..., :M, :D_V], "out": square[..., :N, :D_V]},
    "out overlaps a mask": {
        "keep": square.view(bool)[0, :N, :M],
        "out": square[..., :N, :D_V],
    },
    "out is fixed": {"out": fixed(np.zeros((2, N, D_V)))},
    "out is repeated": {"out": np.broadcast_to(0.0, (2, N, D_V))},
    "out has windows": {"out": windows()},
    "out is narrow": {"out": np.zeros((2, N, D_V), np.float32)},
    "out is of integers": {"out": np.zeros((2, N, D_V), int)},
    "out has no batch": {"out": np.zeros((N, D_V))},
    "out is turned": {"out": np.zeros((2, D_V, N))},
    "out is a list": {"out": [0.0]},
    "out is a matrix": {"out": np.zeros((N, D_V)).view(np.matrix)},
    "out is masked": {"out": np.ma.zeros((2, N, D_V))},
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_before_anything_is_computed(
    case: str, saved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = GIVEN | REFUSED[case]
    with pytest.raises(sa.SymattnError):
        F(**given)

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("it was computed")

    for inner in ("_compute_direct", "_compute_blocked"):
        monkeypatch.setattr(saved, inner, fail)
    with pytest.raises((TypeError, ValueError)) as error:
        saved.compute(**given)
    (changed, *_) = reversed(REFUSED[case])
    assert changed in str(error.value) or case == "an exponential beyond floats"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"workers": 2},
        {"w": np.int64(2), "p": np.uint8(1)},
        {"c": Fraction(1, 2), "tau": np.float32(2)},
        {"w": 10**15 - 1},
        {"out": np.zeros((2, N, D_V))},
        {"out": np.zeros((D_V, 2, N)).transpose(1, 2, 0)[:, ::-1]},
        {"V": square[..., :M, :D_V], "out": square[..., M : M + N, :D_V]},
        {"out": np.zeros((4, N, 9))[::-2, :, 1::3]},
    ],
    ids=lambda given: ", ".join(given) or "nothing",
)
def test_all_else_is_taken(given: dict[str, Any], saved: Any) -> None:
    named = GIVEN | given
    out = named.pop("out", None)
    expected = F(**named)
    for f in (F, saved.compute):
        found = f(**named, out=out)
        np.testing.assert_array_equal(found, expected)
        assert out is None or found is out


def test_sizes_by_which_nothing_can_be_divided(tmp_path: Path) -> None:
    f = sa.lambdify([Q, K, V], sa.softmax(Q @ K.T / sa.sqrt(d_k), axis=1) @ V)
    namespace: dict[str, Any] = {}
    exec(f.save(tmp_path / "a.py").read_text(encoding="utf-8"), namespace)
    empty = np.zeros((N, 0)), np.zeros((M, 0)), v
    with pytest.raises(sa.ScalarError, match="divides by zero"):
        f(*empty)
    with pytest.raises(ValueError, match="√d_k cannot be computed: it divides by zero"):
        namespace["compute"](*empty)


def test_scalars_that_the_dtype_cannot_hold(tmp_path: Path) -> None:
    f = sa.lambdify([Q, c], c * Q)
    namespace: dict[str, Any] = {}
    exec(f.save(tmp_path / "a.py").read_text(encoding="utf-8"), namespace)
    for dtype in (np.float32, np.float16):
        x = q.astype(dtype)
        with pytest.raises(sa.ScalarError, match="larger than the dtype can hold"):
            f(x, 1e39)
        with pytest.raises(ValueError, match="no finite real number that float32 can hold"):
            namespace["compute"](x, 1e39)
    np.testing.assert_array_equal(namespace["compute"](q, 1e39), f(q, 1e39))
    root = sa.lambdify([Q, c], sa.sqrt(c) * Q)
    exec(root.save(tmp_path / "b.py").read_text(encoding="utf-8"), namespace)
    with pytest.raises(ValueError, match="no finite real number"):
        namespace["compute"](q, -1.0)


@pytest.mark.parametrize("shape", [(2, 1, N, M), (1, 1, N, M)])
def test_masks_with_an_axis_of_heads(shape: tuple[int, ...], tmp_path: Path) -> None:
    h = sa.dim("h")
    i, W = sa.index("i", h), sa.family("W", h, d_k, d_k)
    weights = sa.softmax(Q @ W[i] @ K.T, axis=1, mask=sa.keep())
    f = sa.lambdify([Q, K, V, W], sa.sum_over(weights @ V, i))
    compute = run_path(str(f.save(tmp_path / "a.py")))["compute"]
    w = random.normal(size=(3, D_K, D_K))
    problem = "keep is the same for every head, and has no axis of heads"
    for g, kind in ((f, sa.InputShapeError), (compute, ValueError)):
        with pytest.raises(kind, match=problem):
            g(q, k, v, w, keep=np.ones(shape, bool))
    for taken in ((N, M), (2, N, M), (3, 2, N, M)):
        keep = np.ones(taken, bool)
        np.testing.assert_array_equal(compute(q, k, v, w, keep=keep), f(q, k, v, w, keep=keep))


def test_maxima_of_nothing(tmp_path: Path) -> None:
    f = sa.lambdify([Q], sa.max(Q, axis=1))
    compute = run_path(str(f.save(tmp_path / "a.py")))["compute"]
    np.testing.assert_array_equal(compute(q), f(q))
    for g, kind in ((f, sa.SizeError), (compute, ValueError)):
        with pytest.raises(kind, match="is a maximum of nothing"):
            g(np.zeros((N, 0)))
