"""Saved modules run where NumPy is and symattn is not, and compute what loops over floats do."""

import inspect
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.errors import FileTakenError, NotSupportedError
from tests import loops
from tests.variants.points import looped, random_column_arrays, run_time

D_K, D_V, N, M, H = 4, 3, 5, 7, 2

d_k, d_v, n, m, h, d = sa.dims("d_k d_v n m h d")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
QR, KR, VR = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
COLUMN = V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0)
ROW = sa.softmax(QR @ KR.T / sa.sqrt(d_k), axis=1) @ VR
c = sa.scalar("c")

Array = np.ndarray[Any, Any]

RUN = """
import sys
sys.path[:0] = sys.argv[1:3]
import numpy, attention
assert not {"symattn", "sympy"} & set(sys.modules)
given = dict(numpy.load("given.npz"))
found = attention.compute(**{k: v if v.shape else v.item() for k, v in given.items()})
found = found if isinstance(found, tuple) else (found,)
numpy.savez("found.npz", *found)
"""


@pytest.fixture(scope="session")
def numpy_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which NumPy can be imported, and nothing else that is installed."""
    folder = tmp_path_factory.mktemp("numpy_alone")
    package = Path(np.__file__).parent
    for place in (package, package.with_name("numpy.libs")):
        if place.exists():
            (folder / place.name).symlink_to(place, target_is_directory=True)
    return folder


def elsewhere(f: Any, given: Mapping[str, Any], place: Path, numpy_alone: Path) -> list[Array]:
    """What the saved module returns in an interpreter that finds NumPy alone."""
    work, saved = place / "work", place / "saved"
    work.mkdir()
    saved.mkdir()
    assert f.save(saved / "attention.py") == saved / "attention.py"
    np.savez(work / "given.npz", **given)
    subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", "-c", RUN, str(numpy_alone), str(saved)],
        cwd=work,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        check=True,
        timeout=120,
    )
    with np.load(work / "found.npz") as found:
        return [found[name] for name in found.files]


def imported(f: Any, place: Path) -> Any:
    """The saved module, imported here."""
    spec = spec_from_file_location(place.stem, f.save(place))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random(*shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(3)
    return [2 * generator.normal(size=shape) for shape in shapes]


Case = tuple[Any, dict[str, Any], Callable[[], Array]]


def heads(plan: str) -> Case:
    i = sa.index("i", h)
    W = sa.family("W^Q", h, d_k, d)
    X = sa.matrix("X", d, n)
    f = sa.lambdify(
        [X, K, V, W], sa.heads(V @ sa.softmax(K.T @ W[i] @ X, axis=0), i, axis=0), plan=plan
    )
    x, k, v, w = random((6, N), (2, D_K, M), (D_V, M), (H, D_K, 6))

    def wanted() -> Array:
        def one(x: Array, k: Array, v: Array) -> Array:
            blocks = [loops.dot_product(loops.times(w[a], x), k, v) for a in range(H)]
            return np.concatenate(blocks)

        return loops.over_batches(one, x, k, v)

    return f, {"X": x, "K": k, "V": v, "W_Q": w}, wanted


def column(plan: str) -> Case:
    q, k, v = random((3, D_K, N), (2, 1, D_K, M), (D_V, M))
    f = sa.lambdify([Q, K, V], COLUMN, plan=plan)
    return (
        f,
        {"Q": q, "K": k, "V": v},
        lambda: loops.over_batches(loops.scaled_dot_product, q, k, v),
    )


def with_a_scalar(plan: str) -> Case:
    q, k, v = random((D_K, N), (D_K, M), (D_V, M))
    f = sa.lambdify([Q, K, V, c], V @ sa.softmax(c * (K.T @ Q), axis=0), plan=plan)
    return f, {"Q": q, "K": k, "V": v, "c": -0.5}, lambda: loops.dot_product(-0.5 * q, k, v)


CASES = {"column": column, "heads": heads, "with a scalar": with_a_scalar}


each_plan = pytest.mark.parametrize("plan", ["direct", "blocked"])


@each_plan
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_computes_the_same_with_numpy_alone(
    case: Callable[[str], Case], plan: str, tmp_path: Path, numpy_alone: Path
) -> None:
    f, given, wanted = case(plan)
    assert f.plan == plan
    (found,) = elsewhere(f, given, tmp_path, numpy_alone)
    np.testing.assert_allclose(found, wanted(), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(found, f(**given))


@each_plan
def test_masks_and_further_results(plan: str, tmp_path: Path, numpy_alone: Path) -> None:
    mask = sa.causal("top_left") & sa.keep()
    formula = sa.softmax(QR @ KR.T, axis=1, mask=mask) @ VR
    f = sa.lambdify([QR, KR, VR], formula, returns=("lse", "output"), plan=plan)
    q, k, v = random((N, D_K), (M, D_K), (M, D_V))
    keep = np.random.default_rng(4).random((N, M)) < 0.6
    keep[1], k[6] = False, np.nan
    lse, output = elsewhere(f, {"Q": q, "K": k, "V": v, "keep": keep}, tmp_path, numpy_alone)
    for i in range(N):
        at = [j for j in range(M) if j <= i and keep[i, j]]
        scores = [loops.dot(q[i], k[j]) for j in at]
        sums = math.log(math.fsum(map(math.exp, scores))) if at else -math.inf
        np.testing.assert_allclose(lse[i], sums, rtol=1e-12)
        weights = loops.softmax_of(scores)
        for column in range(D_V):
            wanted = math.fsum(w * v[j, column] for w, j in zip(weights, at, strict=True))
            np.testing.assert_allclose(output[i, column], wanted, rtol=1e-12, atol=1e-13)


RUN_ALL = """
import importlib, pathlib, sys
sys.path[:0] = sys.argv[1:3]
import numpy
for path in sorted(pathlib.Path(sys.argv[2]).glob("*.npz")):
    module = importlib.import_module(path.stem)
    given = {k: v if v.shape else v.item() for k, v in numpy.load(path).items()}
    (function,) = (getattr(module, name) for name in module.__all__)
    numpy.save(path.with_suffix(".npy"), function(**given))
assert not {"symattn", "sympy", "threadpoolctl"} & set(sys.modules)
"""


def test_every_formula_of_the_catalogue_runs_with_numpy_alone(
    tmp_path: Path, numpy_alone: Path
) -> None:
    wanted: dict[str, Array] = {}
    for name in sa.formulas():
        formula = sa.formula(name)
        arrays = random_column_arrays(formula, seed=5)
        for plan in ("direct", "blocked"):
            try:
                f = sa.lambdify(formula.inputs, formula, plan=plan)
            except NotSupportedError:
                continue
            module = f"{name}_{plan}"
            wanted[module] = looped(name, arrays)
            f.save(tmp_path / f"{module}.py")
            inputs = dict(zip(inspect.signature(f).parameters, arrays.values(), strict=False))
            np.savez(tmp_path / f"{module}.npz", **inputs, **run_time(name))
    assert sum(module.endswith("_blocked") for module in wanted) > len(sa.formulas()) / 2
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", RUN_ALL]
    subprocess.run([*command, str(numpy_alone), str(tmp_path)], check=True, timeout=300)
    for module, expected in wanted.items():
        found = np.load(tmp_path / f"{module}.npy")
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=module)


def test_the_sizes_of_a_call_choose_the_plan(tmp_path: Path, numpy_alone: Path) -> None:
    mask = sa.causal("bottom_right")
    f = sa.lambdify([QR, KR, VR], sa.softmax(QR @ KR.T, axis=1, mask=mask) @ VR, workers=2)
    q, k, v = random((2, 300, 4), (290, 4), (2, 290, 3))
    (found,) = elsewhere(f, {"Q": q, "K": k, "V": v}, tmp_path, numpy_alone)
    np.testing.assert_allclose(found, f(q, k, v), rtol=1e-12, atol=1e-13)
    module = imported(f, tmp_path / "a.py")
    taken: list[str] = []
    for plan in ("direct", "blocked"):
        name = f"_compute_{plan}"
        inner = getattr(module, name)

        def spied(*args: Any, plan: str = plan, inner: Any = inner, **kwargs: Any) -> Any:
            taken.append(plan)
            return inner(*args, **kwargs)

        setattr(module, name, spied)
    for n_, m_, heads_ in ((300, 290, 1), (16, 5000, 1), (20, 200, 1), (16, 5000, 64)):
        shapes = (heads_, n_, 4), (heads_, m_, 4), (heads_, m_, 3)
        arrays = [array.astype(np.float32) for array in random(*shapes)]
        np.testing.assert_array_equal(module.compute(*arrays), f(*arrays))
    assert taken == ["blocked", "direct", "direct", "blocked"]
    one, two = (module.compute(q, k, v, workers=count) for count in (1, 3))
    np.testing.assert_array_equal(one, two)
    assert "workers=2, out=None" in (tmp_path / "a.py").read_text(encoding="utf-8")
    assert (module.compute.__doc__ or "").count("workers: the number of threads") == 1


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    f = sa.lambdify([Q, K, V], COLUMN)
    path = tmp_path / "attention.py"
    assert f.save(str(path)) == path
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(FileTakenError, match=r"attention\.py already, and it is not overwritten"):
        f.save(path)
    with pytest.raises(FileExistsError):
        f.save(path)
    assert path.read_text(encoding="utf-8") == "mine"


def test_lines_of_a_program(tmp_path: Path) -> None:
    program = sa.Program(S=K.T @ Q, A=sa.softmax(K.T @ Q, axis=0))
    module = imported(sa.lambdify([Q, K], program), tmp_path / "lines.py")
    q, k = random((D_K, N), (D_K, M))
    np.testing.assert_allclose(module.compute(q, k).sum(axis=0), 1)
    assert (module.compute.__doc__ or "").startswith("Compute these lines, and return the last.")


def test_out(tmp_path: Path) -> None:
    module = imported(sa.lambdify([Q, K, V], COLUMN), tmp_path / "a.py")
    arrays = random((6, 1, D_K, N), (2, D_K, M), (D_V, M))
    out = np.full((6, 2, D_V, N), np.nan)
    assert module.compute(*arrays, out=out) is out
    np.testing.assert_array_equal(out, module.compute(*arrays))
    with pytest.raises(ValueError, match=r"out is float32 of shape \(6, 2, 3, 5\); give float64"):
        module.compute(*arrays, out=out.astype(np.float32))
    with pytest.raises(ValueError, match=r"give float64 of shape \(6, 2, 3, 5\)"):
        module.compute(*arrays, out=out[0])
    with pytest.raises(TypeError, match="out is a list; give a numpy array"):
        module.compute(*arrays, out=[])
    several = sa.lambdify([Q, K, V], COLUMN, returns=("lse", "output", "weights"))
    module = imported(several, tmp_path / "b.py")
    lse, output, weights = module.compute(*arrays, out=out)
    assert output is out
    for one, other in zip((lse, output, weights), several(*arrays), strict=True):
        np.testing.assert_array_equal(one, other)


def test_it_refuses_what_would_be_computed_wrong(tmp_path: Path) -> None:
    keep = sa.softmax(QR @ KR.T, axis=1, mask=sa.keep()) @ VR
    module = imported(sa.lambdify([QR, KR, VR], keep), tmp_path / "a.py")
    q, k, v = random((N, D_K), (M, D_K), (M, D_V))
    see: Any = np.ones((N, M), bool)
    refused: list[tuple[type[Exception], str, Any]] = [
        (TypeError, "Q is a list; give a numpy array", ([1.0], k, v, see)),
        (TypeError, "K is an array of dtype int64; give float16", (q, k.astype(int), v, see)),
        (TypeError, "V is float32, but Q is float64", (q, k, v.astype(np.float32), see)),
        (TypeError, "keep is an array of dtype int64; give booleans, True", (q, k, v, see * 1)),
        (TypeError, "Q is a MaskedArray; give a numpy", (np.ma.array(q), k, v, see)),
        (ValueError, r"Q needs at least 2 axes, \(n, d_k\), but has shape", (q[0], k, v, see)),
        (
            ValueError,
            r"m = 7 from K of shape \(7, 4\), but 6 from V of shape \(6, 3\)",
            (q, k, v[:6], see),
        ),
        (ValueError, r"n = 5 from Q .*, but 1 from keep", (q, k, v, see[:1])),
        (
            ValueError,
            r"the leading axes \(2,\) of K do not broadcast with \(3,\)",
            (np.stack([q] * 3), np.stack([k] * 2), v, see),
        ),
    ]
    for kind, message, (q_, k_, v_, keep_) in refused:
        with pytest.raises(kind, match=message):
            module.compute(q_, k_, v_, keep=keep_)


def test_sizes_that_follow_from_others(tmp_path: Path) -> None:
    with sa.assuming("d = h*d_k"):
        packed, one = sa.matrix("X", h * d_k, n), sa.matrix("W", d, n)
        f = sa.lambdify([packed, one, Q], (packed + one) @ Q.T / sa.sqrt(h))
    module = imported(f, tmp_path / "a.py")
    x, w, q = random((H * D_K, N), (H * D_K, N), (D_K, N))
    np.testing.assert_array_equal(module.compute(x, w, q), f(x, w, q))
    with pytest.raises(ValueError, match=r"d = 12 from W of shape \(12, 5\), but 8 for h = 2"):
        module.compute(x, np.concatenate([w, w[:4]]), q)


def test_sizes_that_have_to_be_solved_for(tmp_path: Path) -> None:
    packed = sa.matrix("X", h * d_k, n)
    f = sa.lambdify([packed], packed / sa.sqrt(d_k))
    module = imported(f, tmp_path / "a.py")
    (x,) = random((12, N))
    assert str(inspect.signature(module.compute)) == "(X, *, h=None, d_k=None, out=None)"
    for given in ({"h": 3}, {"d_k": 4}, {"h": 3, "d_k": 4}):
        np.testing.assert_array_equal(module.compute(x, **given), f(x, **given))
    with pytest.raises(TypeError, match="the size h does not follow from the shapes"):
        module.compute(x)
    with pytest.raises(ValueError, match=r"h\*d_k = 12 from X .*, but 15 for h = 5, d_k = 3"):
        module.compute(x, h=5)
    heads = sa.sum_over(sa.head(packed, sa.index("i", h), axis=0), sa.index("i", h))
    g = sa.lambdify([packed, K], heads.T @ K / sa.sqrt(d_k))
    module = imported(g, tmp_path / "b.py")
    assert str(inspect.signature(module.compute)) == str(inspect.signature(g))
    x, k = random((12, N), (4, M))
    np.testing.assert_array_equal(module.compute(x, k), g(x, k))
    with pytest.raises(
        ValueError, match=r"h\*d_k = 13 from X of shape \(13, 5\), but 16 for h = 4"
    ):
        module.compute(np.ones((13, N)), k)


def test_names_that_strips_need_for_themselves(tmp_path: Path) -> None:
    names = "spread run TILE Space attend"
    a, b, v, s, t = (sa.matrix(name, n, n) for name in names.split())
    f = sa.lambdify([a, b, v, s, t], s @ t @ sa.softmax(a @ b, axis=1) @ v, plan="blocked")
    module = imported(f, tmp_path / "a.py")
    arrays = random(*[(N, N)] * 5)
    np.testing.assert_array_equal(module.compute(*arrays), f(*arrays))


def test_names_that_the_module_needs_for_itself(tmp_path: Path) -> None:
    names = "np out check_inputs check_out compute compute_unchecked float found size Any FLOATS"
    inputs = [sa.matrix(name, n, n) for name in names.split()]
    f = sa.lambdify([*inputs, c], sa.tanh(sum(inputs[1:], c * inputs[0])))
    module = imported(f, tmp_path / "a.py")
    arrays = random(*[(N, N)] * len(inputs))
    np.testing.assert_array_equal(module.compute(*arrays, c=0.25), f(*arrays, c=0.25))


@each_plan
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_dtypes(dtype: str, plan: str, tmp_path: Path) -> None:
    if dtype == "bfloat16" and find_spec("ml_dtypes") is None:
        pytest.skip("bfloat16 needs ml_dtypes: pip install ml_dtypes")
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    f = sa.lambdify([QR, KR, VR, c], c * ROW, plan=plan)
    arrays = [array.astype(kind) for array in random((N, D_K), (M, D_K), (M, D_V))]
    found = imported(f, tmp_path / "a.py").compute(*arrays, np.float64(0.5))
    assert found.dtype == kind
    np.testing.assert_array_equal(found, f(*arrays, 0.5))
