"""The direct plan over slices of the leading axes: the numbers of the whole, in less memory."""

import itertools
import runpy
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen import choice
from symattn.codegen.choice import slices
from symattn.codegen.plans import Plans
from tests.variants.points import each_layout, each_variant, random_column_arrays, run_time, turned

n, m, d_k, d_v = sa.dims("n m d_k d_v")
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
N, M, D_K, D_V = 5, 7, 4, 3


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Slices of two heads of N by M; the list holds what each call has chosen."""
    monkeypatch.setattr(choice, "SLICE", 2 * N * M * 8)
    found: list[Any] = []
    chosen = Plans.chosen

    def remembered(plans: Plans, *arguments: Any) -> Any:
        found.append(chosen(plans, *arguments))
        return found[-1]

    monkeypatch.setattr(Plans, "chosen", remembered)
    return found


def random_arrays(*batches: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    shapes = ((N, D_K), (M, D_K), (M, D_V))
    return [random.normal(size=b + s) for b, s in zip(batches, shapes, strict=True)]


BATCHES = [
    ((9,), (9,), (9,)),
    ((9,), (), (9,)),
    ((), (9,), (1,)),
    ((3, 1), (1, 5), ()),
    ((3, 5), (5,), (3, 1)),
    ((2, 3, 5), (3, 1), (2, 1, 1)),
    ((1, 1, 7), (1, 1, 1), (7,)),
]


@pytest.mark.parametrize(
    ("batches", "keep"),
    [
        *((batches, None) for batches in BATCHES),
        *((batches, ()) for batches in BATCHES),
        *((batches, (9,)) for batches in BATCHES[:3]),
        *((batches, (3, 1)) for batches in BATCHES[3:6]),
    ],
    ids=str,
)
def test_slices_are_parts_of_the_whole(taken: list[Any], batches: Any, keep: Any) -> None:
    masks = {}
    if keep is not None:
        masks["keep"] = np.random.default_rng(1).random((*keep, N, M)) < 0.6
    formula = sa.attention(Q, K, V, mask=None if keep is None else sa.keep())
    returns = ("lse", "output")
    arrays = random_arrays(*batches)
    direct = sa.lambdify([Q, K, V], formula, returns=returns, plan="direct")(*arrays, **masks)
    f = sa.lambdify([Q, K, V], formula, returns=returns)
    found = f(*arrays, **masks)
    assert taken[-1].at_once == 2
    out = np.full_like(direct[1], np.nan)
    lse, same = f(*arrays, **masks, out=out)
    assert same is out
    for one, other in ((found[0], direct[0]), (found[1], direct[1]), (out, direct[1])):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-13)
    np.testing.assert_array_equal(lse, found[0])


@each_variant
@each_layout
def test_every_formula_in_slices(
    taken: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, bool],
    layout: str,
) -> None:
    monkeypatch.setattr(choice, "SLICE", 1)
    formula = sa.formula(name, layout=layout, **options)
    column = sa.formula(name, layout="column", **options)
    arrays = []
    for k, symbol in enumerate(formula.inputs):
        every = [random_column_arrays(column, seed)[symbol.name] for seed in (0, 1, 2)]
        stacked = np.stack(every) if k % 2 == 0 else every[0]
        arrays.append(turned(stacked, symbol, formula.twins) if layout == "row" else stacked)
    by_name = run_time(name)
    f = sa.lambdify(formula.inputs, formula)
    found = f(*arrays, **by_name)
    assert (taken[-1].at_once == 1) == (f.plan == "auto")
    wanted = sa.lambdify(formula.inputs, formula, plan="direct")(*arrays, **by_name)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


def test_a_saved_module_takes_slices_too(taken: list[Any], tmp_path: Path) -> None:
    c = sa.scalar("c", positive=True)
    formula = sa.attention(
        Q, K, V, score=lambda q, k: c * sa.tanh(k.T @ q / c), mask=sa.keep() & sa.padding()
    )
    arrays = random_arrays((3, 5), (5,), (3, 1))
    random = np.random.default_rng(1)
    given = {"keep": random.random((3, 1, N, M)) < 0.6, "padding": random.random(M) < 0.8}
    for number, returns in enumerate((None, ("output",), ("lse", "output"))):
        f = sa.lambdify([Q, K, V, c], formula, returns=returns)
        module = runpy.run_path(str(f.save(tmp_path / f"slices_{number}.py")))
        whole = f(*arrays, 2, **given)
        assert taken[-1].at_once == 2
        module["compute"].__globals__["_SLICE"] = choice.SLICE
        sliced = module["compute"](*arrays, 2, **given)
        assert isinstance(sliced, tuple) == (returns is not None)
        for one, other in zip(sliced, whole, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("batch", [(), (7,), (2, 5, 3), (4, 1, 3), (1, 1), (6, 1)], ids=str)
@pytest.mark.parametrize("most", [1, 2, 3, 4, 9, 15, 100])
def test_slices_hold_every_matrix_once(batch: tuple[int, ...], most: int) -> None:
    seen = np.zeros(batch, int)
    for at in slices(batch, most):
        assert seen[at].size <= most
        seen[at] += 1
    assert (seen == 1).all()


def test_slices_are_alike() -> None:
    """65 matrices, 64 at once: two slices of about the same size, no slice of one."""
    counts = [at[1].stop - at[1].start for at in itertools.islice(slices((2, 65), 64), 1)]
    assert counts == [33]


def test_memory_does_not_grow_with_the_number_of_matrices() -> None:
    f = sa.lambdify([Q, K, V], sa.attention(Q, K, V))
    q, k, v = (np.ones((40_000, 8, 8), np.float32) for _ in range(3))
    f(q[:1000], k[:1000], v[:1000])
    tracemalloc.start()
    try:
        found = f(q, k, v)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < found.nbytes + 4 * choice.SLICE  # all scores are 10 MiB, and the result too
