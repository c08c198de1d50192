"""What strips are made of: tiles of distances, threads, and memory that is kept."""

import os
import signal
import threading
import time
import tracemalloc
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen import strips
from symattn.nodes import Mask
from tests.codegen.blocks import ROW, Array, blocked, in_small_blocks, random_rows


def test_equal_tiles_of_distances_are_made_once_and_few_are_kept() -> None:
    made: list[int] = []

    def f(r: Array) -> Array:
        made.append(len(r))
        return r

    tile = strips.diagonals(f, np.float32)
    for i0 in range(0, 5 * 4, 4):
        np.testing.assert_array_equal(
            tile(i0, i0 + 4, i0 - 3, i0 + 2),
            np.arange(i0 - 3, i0 + 2) - np.arange(i0, i0 + 4)[:, None],
        )
    assert made == [4 + 5 - 1]
    for j0 in range(3 * strips.MOST_TILES):
        tile(0, 4, j0, j0 + 5)
    again = len(made)
    tile(0, 4, 0, 5)  # one of the first
    assert len(made) == again
    last = 3 * strips.MOST_TILES - 1
    tile(0, 4, last, last + 5)
    assert len(made) == again + 1


# Threads.


@pytest.mark.parametrize("mask", [None, sa.causal("top_left"), sa.keep()], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_bits_for_any_number_of_workers(
    mask: Mask | None, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("threadpoolctl", reason="without it there is one worker")
    used: list[int] = []
    workers_for = strips.workers_for

    def counted(*arguments: Any) -> int:
        used.append(workers_for(*arguments))
        return used[-1]

    monkeypatch.setattr(strips, "workers_for", counted)
    in_small_blocks(monkeypatch)
    f = blocked("row", mask=mask)
    q, k, v = (array.astype(dtype) for array in random_rows(40, 50, 3))
    named = {"keep": np.random.default_rng(0).random((40, 50)) < 0.5} if mask == sa.keep() else {}
    one, *others = (f(q, k, v, workers=workers, **named) for workers in (1, 2, 3))
    assert used == [1, 2, 3]
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_blas_has_its_threads_back_and_every_thread_the_same_bits() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")

    def threads() -> list[int]:
        found = threadpoolctl.threadpool_info()
        return [each["num_threads"] for each in found if each["user_api"] == "blas"]

    before = threads()
    Q, K, V = ROW
    f = sa.lambdify(ROW, sa.softmax(Q @ K.T, axis=1) @ V, plan="blocked")
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


def test_an_interrupt_anywhere_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that comes while the caller waits for another thread, or between two strips."""
    pytest.importorskip("threadpoolctl", reason="without it there is one worker")
    here, started, done = threading.get_ident(), threading.Event(), list[Any]()

    def work(head: Any, strip: Any, space: Any) -> None:
        if threading.get_ident() != here:
            started.set()
            time.sleep(0.01)
            done.append(head)

    class Interrupted(deque[Any]):
        def popleft(self) -> Any:
            if threading.get_ident() == here:
                started.wait(10)
                raise KeyboardInterrupt
            return super().popleft()

    monkeypatch.setattr(strips, "deque", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        strips.run(work, (500,), strips.strips_of(2, 3), 3, np.dtype("float64"), 2)
    assert len(done) < 10
    assert not strips.one_blas_thread.inside
    assert strips.one_blas_thread.limit is None


def test_without_more_threads_fewer_do_all(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("threadpoolctl", reason="without it there is one worker")
    in_small_blocks(monkeypatch)
    f = blocked("row")
    arrays = random_rows(40, 50, 3)
    expected = f(*arrays, workers=1)
    start, left = threading.Thread.start, [1]

    def limited(self: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    np.testing.assert_array_equal(f(*arrays, workers=3), expected)
    np.testing.assert_array_equal(f(*arrays, workers=3), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork\\(\\) was called:RuntimeWarning")  # JAX, if it is there
def test_a_child_of_a_process_whose_threads_work() -> None:
    """The child has no thread that would free the lock, or leave the number of threads of BLAS."""
    f = blocked("row")
    arrays = random_rows(40, 50, 3)
    expected = f(*arrays, workers=2)
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with strips.one_blas_thread, strips.one_blas_thread.lock:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits for ever
        free = not strips.one_blas_thread.inside and strips.one_blas_thread.limit is None
        right = np.array_equal(f(*arrays, workers=2), expected)
        os._exit(0 if free and right else 1)
    leave.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_many_callers_in_threads() -> None:
    """Each may have workers of its own, and a worker of another pool may call."""
    f = blocked("row", mask=sa.causal("bottom_right"))
    given = [random_rows(30 + k, 40, 2, seed=k) for k in range(6)]
    expected = [f(*arrays) for arrays in given]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(5):
            found = pool.map(lambda k: f(*given[k], workers=1 + k % 3), range(6))
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
    assert not strips.one_blas_thread.inside


@pytest.mark.parametrize("plan", ["direct", "blocked"])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_exponential_that_underflows_is_no_error(plan: str, workers: int) -> None:
    """Whatever NumPy does about it elsewhere, in this thread or another."""
    Q, K, V = ROW
    f = sa.lambdify([Q, K, V], sa.softmax(Q @ K.T, axis=1) @ V, plan=plan, workers=workers)
    q, k, v = random_rows(9, 13, 3)
    expected = f(300 * q, k, v)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(f(300 * q, k, v), expected)


# Memory.


def test_memory_does_not_grow_with_the_scores() -> None:
    f = blocked("row", mask=sa.causal("top_left"))
    q, k, v = (array.astype("float32") for array in random_rows(3000, 3000))
    f(q[:300], k[:300], v[:300], workers=1)
    tracemalloc.start()
    try:
        found = f(q, k, v, workers=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < found.nbytes + 2**20  # all scores would be 34 MiB


def test_few_widths_are_kept() -> None:
    for width in range(3 * strips.MOST_WIDTHS):
        strips.Space.unused(width, np.dtype("float32"))
    assert len(strips.Space.kept) <= strips.MOST_WIDTHS
