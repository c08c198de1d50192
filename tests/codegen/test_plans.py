"""Which plan computes a formula: the one that was asked for, or that suits its sizes."""

import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symattn as sa
from tests.codegen.blocks import ROW, by_hand, d_k, d_v, m, n, random_rows

Plain = Callable[..., Any]

# What has no blocks.

NOT_BLOCKED: list[tuple[Plain, str]] = [
    (lambda Q, K, V: Q @ K.T @ V, "no softmax"),
    (
        lambda Q, K, V: V + sa.softmax(Q @ K.T, axis=1) @ sa.softmax(Q @ K.T, axis=1) @ V,
        "used twice in",
    ),
    (lambda Q, K, V: V @ V.T @ sa.softmax(Q @ K.T, axis=1), "with no values"),
    (
        lambda Q, K, V: sa.softmax(sa.softmax(Q @ K.T, axis=1), axis=1) @ V,
        "the weights softmax(Q Kᵀ) are used in softmax(softmax(Q Kᵀ)),",
    ),
    (lambda Q, K, V: sa.softmax(sa.max(Q @ K.T, axis=0), axis=1) @ V, "max"),
    (
        lambda Q, K, V: sa.hadamard(P := sa.softmax(Q @ K.T, axis=1), P) @ V,
        "are used twice in softmax(Q Kᵀ) ∘ softmax(Q Kᵀ),",
    ),
]


@pytest.mark.parametrize(("formula", "reason"), NOT_BLOCKED)
def test_what_has_no_blocks_says_why(formula: Plain, reason: str) -> None:
    Q, K, V = sa.matrix("Q", m, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    inputs = [Q, K, V]
    f = sa.lambdify(inputs, formula(Q, K, V))
    assert reason in f.plan_reason
    assert f.plan == "direct"
    with pytest.raises(sa.NotSupportedError, match=re.escape(reason)):
        sa.lambdify(inputs, formula(Q, K, V), plan="blocked")


def test_a_formula_without_arrays_has_no_blocks() -> None:
    """Its sizes and the array of its mask are all that it is given."""
    P = sa.softmax(sa.ones(n, m), axis=1, mask=sa.keep()) @ sa.ones(m, d_v)
    f = sa.lambdify([], P)
    keep = np.array([[True, False, True], [False, False, False]])
    assert f(keep=keep, d_v=4).tolist() == [[1.0] * 4, [0.0] * 4]
    assert "without an array" in f.plan_reason


# Which plan.


def test_the_plan_suits_the_sizes() -> None:
    f = sa.lambdify(ROW, sa.attention(*ROW, layout="row"))
    assert f.plan == "auto"
    assert set(f.sources) == {"direct", "blocked"}
    assert f.source == f.sources["direct"]
    assert "blocks" in f.plan_reason
    chosen = f._plans
    for shape, expected in [
        ((16, 1 << 13), "direct"),  # few queries
        ((256, 256), "direct"),  # few scores
        ((257, 256), "blocked"),
        ((16, 1 << 19), "blocked"),  # much memory
        ((4, 8, 256, 256), "direct"),
        ((17, 4, 256, 256), "blocked"),
        ((70000, 8, 8), "direct"),  # many small matrices
        ((4096, 3, 49, 32), "direct"),
        ((0, 5), "direct"),
    ]:
        *batch, queries, keys = shape
        given = [
            np.broadcast_to(np.float32(0), (*batch, size, 2)) for size in (queries, keys, keys)
        ]
        sizes = {"n": queries, "m": keys, "d_k": 2, "d_v": 2}
        assert chosen.chosen(sizes, given, {}).source is chosen.by_name[expected], shape


def test_tests_of_each_plan_take_it(each_plan: str) -> None:
    f = sa.lambdify(ROW, sa.attention(*ROW, layout="row"))
    called_for = f._plans.chosen({}, [], {}).source
    assert called_for is f._plans.by_name[each_plan]
    assert bool(called_for.workers) == (each_plan == "blocked")


def test_what_blocks_and_kernels_both_lack_is_told_once() -> None:
    n, m = sa.dims("n m")
    Q, K, V = sa.matrix("Q", n, 1), sa.matrix("K", m, 1), sa.matrix("V", m, 1)
    f = sa.lambdify([Q, K, V], sa.sigmoid(Q @ K.T) @ V, backend="cupy")
    lacking = "weights that are not those of one softmax, in a kernel"
    assert f.plan_reason == f"no blocks and no kernel: {lacking}"


def test_no_kernels_on_the_cpu() -> None:
    X = sa.matrix("X", 2, 3)
    with pytest.raises(sa.NotSupportedError, match='plan="fused" with backend="numpy"'):
        sa.lambdify([X], X, plan="fused")


def test_only_the_plan_that_was_asked_for() -> None:
    formula = sa.attention(*ROW, layout="row")
    assert sa.lambdify(ROW, formula, plan="blocked").plan == "blocked"
    assert sa.lambdify(ROW, formula, plan="direct").plan == "direct"
    assert sa.lambdify(ROW, formula, backend="cupy").plan == "auto"
    f = pickle.loads(pickle.dumps(sa.lambdify(ROW, formula, plan="blocked", workers=2)))
    assert (f.plan, f._workers) == ("blocked", 2)


# Workers.


def test_workers_are_a_number() -> None:
    formula = sa.attention(*ROW, layout="row")
    arrays = random_rows(3, 4)
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(sa.InputError, match="workers"):
            sa.lambdify(ROW, formula, workers=wrong)  # pyright: ignore[reportArgumentType]
        with pytest.raises(sa.InputError, match="workers"):
            sa.lambdify(ROW, formula)(*arrays, workers=wrong)
    f = sa.lambdify(ROW, formula, workers=np.int64(2))  # pyright: ignore[reportArgumentType]
    assert (f.workers, type(f.workers)) == (2, int)
    assert sa.lambdify(ROW, formula).workers is None
    with pytest.raises(AttributeError):
        f.workers = 1  # pyright: ignore[reportAttributeAccessIssue]
    f(*arrays, workers=np.int64(1))


def test_a_device_has_threads_of_its_own() -> None:
    formula = sa.attention(*ROW, layout="row")
    with pytest.raises(sa.InputError, match="workers is 2; give none"):
        sa.lambdify(ROW, formula, backend="cupy", workers=2)


def test_an_input_called_workers_is_an_input() -> None:
    Q, K, _ = ROW
    V, strip = sa.matrix("workers", m, d_v), sa.scalar("strip")
    f = sa.lambdify([Q, K, V, strip], strip * sa.softmax(Q @ K.T, axis=1) @ V, plan="blocked")
    q, k, v = random_rows(3, 4)
    expected = 2 * by_hand(q * math.sqrt(5), k, v)
    np.testing.assert_allclose(f(q, k, workers=v, strip=2.0), expected, rtol=1e-12)
