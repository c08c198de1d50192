"""Numbers that once came out wrong in blocks, and what a call may leave behind."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen import strips

n, m, d = sa.dims("n m d")
Q, K, V = sa.matrix("Q", n, d), sa.matrix("K", m, d), sa.matrix("V", m, d)
S = Q @ K.T


def attended(scores: Any, **options: Any) -> Any:
    return sa.lambdify([Q, K, V], sa.softmax(scores, axis=1) @ V, plan="blocked", **options)


@pytest.mark.parametrize(
    "bias",
    [
        lambda i, j: 1 / (1 + (i - j) ** 2),
        lambda i, j: -((i - j) ** 10) / 10**24,
        lambda i, j: -((i - j) ** 8) / 10**18,
    ],
    ids=["an inverse power", "a power beyond 64 bits", "a large power"],
)
def test_positions_are_no_integers_of_64_bits(bias: Callable[[Any, Any], Any]) -> None:
    q, k, v = np.random.default_rng(0).normal(size=(3, 300, 8))
    f = attended(S + sa.positional(bias, n, m, layout="row"))
    i, j = np.arange(300.0)[:, None], np.arange(300.0)
    scores = q @ k.T + bias(i, j)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True) @ v
    np.testing.assert_allclose(f(q, k, v), expected, rtol=1e-10, atol=1e-13)


def test_an_infinite_value_has_the_sign_of_its_weight() -> None:
    X = sa.matrix("X", n, n)
    weights = sa.softmax(X, axis=1, mask=sa.causal())
    F = sa.hadamard(weights, sa.matrix("D", n, n)) @ sa.matrix("V", n, d)
    x, factors, values = np.zeros((300, 300)), np.ones((300, 300)), np.ones((300, 2))
    factors[5, 0], values[0, 0] = -2, np.inf
    for plan in ("blocked", "direct"):
        f = sa.lambdify([X, sa.matrix("D", n, n), sa.matrix("V", n, d)], F, plan=plan)
        result = f(x, factors, values)
        assert result[5, 0] == -np.inf
        assert result[4, 0] == result[6, 0] == np.inf
        assert np.isfinite(result[:, 1]).all()


@pytest.mark.parametrize("score", [-20.0, -8.0, 0.0])
def test_small_values_keep_their_digits(score: float) -> None:
    f = attended(S)
    q, k = np.full((64, 1), score, np.float32), np.ones((4096, 1), np.float32)
    values = np.full((4096, 1), 1e-36, np.float32)
    np.testing.assert_allclose(f(q, k, values), 1e-36, rtol=1e-5)


def test_blas_has_its_threads_back_and_every_thread_the_same_bits() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")

    def threads() -> list[int]:
        found = threadpoolctl.threadpool_info()
        return [each["num_threads"] for each in found if each["user_api"] == "blas"]

    before = threads()
    f = attended(S)
    x = np.random.default_rng(0).normal(size=(4, 700, 8))
    inside, elsewhere = threading.Event(), []

    def call() -> None:
        inside.set()
        elsewhere.extend(f(x, x, x, workers=workers) for workers in (1, 2))

    thread = threading.Thread(target=call)
    thread.start()
    inside.wait()
    here = [f(x, x, x, workers=workers) for workers in (1, 2)]
    thread.join()
    for result in (*here, *elsewhere):
        np.testing.assert_array_equal(result, here[0])
    assert threads() == before


def test_an_error_in_one_strip_ends_the_others() -> None:
    done: list[Any] = []

    def work(head: Any, strip: Any, space: Any) -> None:
        done.append(head)
        raise KeyError(head)

    parts = strips.strips_of(2, 3)
    with pytest.raises(KeyError):
        strips.run(work, (500,), parts, 4, np.dtype("float64"), 2)
    assert len(done) < 10
