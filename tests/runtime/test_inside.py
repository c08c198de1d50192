"""What a body may ask: the sizes that hold in it, those of its instance included, and `expect`."""

import asyncio
import weakref
from typing import Annotated, Any

import numpy as np
import pytest

import symattn as sa
from symattn.runtime.current import _RUNNING  # pyright: ignore[reportPrivateUsage]

n, d, d_k, h = 5, 12, 4, 2
Input = Annotated[np.ndarray, "d n"]


@sa.shapecheck
class Layer:
    """Its methods declare X alone; h and d_k are those of the weight."""

    def __init__(self, W: Annotated[np.ndarray, "h*d_k d"], h: int) -> None:
        self.W = W

    def looked_up(self, X: Input) -> Any:
        return sa.bindings()

    def expected(self, X: Input, array: Any) -> Any:
        return sa.expect(array, "h n d_k")

    async def in_a_task(self, X: Input, array: Any) -> Any:
        async def task() -> Any:
            return sa.expect(array, "h n d_k")

        return await asyncio.create_task(task())


layer, X = Layer(np.ones((h * d_k, d)), h), np.ones((d, n))


def test_the_sizes_of_the_instance_hold_in_a_body() -> None:
    assert dict(layer.looked_up(X)) == {"h": h, "d_k": d_k, "d": d, "n": n}
    fits = np.ones((h, n, d_k))
    assert layer.expected(X, fits) is fits
    with pytest.raises(sa.ShapeCheckError, match=r"h = 2 \(h of Layer\(\)\)"):
        layer.expected(X, np.ones((h + 1, n, d_k)))


def test_they_hold_in_tasks_that_a_method_starts() -> None:
    fits = np.ones((h, n, d_k))
    assert asyncio.run(layer.in_a_task(X, fits)) is fits
    with pytest.raises(sa.ShapeCheckError, match="d_k = 4"):
        asyncio.run(layer.in_a_task(X, np.ones((h, n, d_k - 1))))


@sa.shapecheck("Q: d_k n")
def expecting(Q: Any, array: Any, shape: Any) -> Any:
    sa.expect(array, shape)
    return sa.bindings()


def test_a_new_tag_is_bound() -> None:
    assert expecting(np.ones((4, 5)), np.ones((7, 5)), "m n")["m"] == 7
    assert expecting(np.ones((4, 5)), np.ones((8, 5)), "h*d_k n")["h"] == 2


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ("2n", "expected an operator"),
        ("h*d_v n", "h and d_v cannot be told"),
        ("h+g n", "g and h cannot be told"),
        ("{self.d_model} n", r"\{self.d_model\} is no size of this call"),
    ],
)
def test_a_shape_that_would_check_nothing_is_refused(shape: str, said: str) -> None:
    with pytest.raises(sa.SpecError, match=said):
        expecting(np.ones((4, 5)), np.ones((8, 5)), shape)


@sa.shapecheck("Y: e k")
def inner(Y: Any) -> Any:
    return sa.bindings()


@sa.shapecheck("Q: d_k n")
def outer(Q: Any, Y: Any) -> Any:
    with sa.config(shapecheck=False):
        return inner(Y)


def test_a_call_that_is_let_through_has_no_sizes() -> None:
    assert dict(outer(np.ones((4, 5)), np.ones((3, 7)))) == {"d_k": 4, "n": 5}
    with sa.config(shapecheck=False), pytest.raises(sa.NoBindingsError):
        inner(np.ones((3, 7)))


def test_tasks_that_start_each_other_hold_nothing_that_has_ended() -> None:
    held: list[weakref.ref[Any]] = []

    @sa.shapecheck
    async def step(x: Annotated[np.ndarray, "n"], more: int) -> None:
        held.append(weakref.ref(x))
        following = more and asyncio.create_task(step(np.ones(more), more - 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not following:
            depth, running = 0, _RUNNING.get()
            while running is not None:
                depth, running = depth + 1, running.outer
            assert depth < 4
            ended.set()

    async def main() -> None:
        await step(np.ones(20), 19)
        await ended.wait()

    ended = asyncio.Event()
    asyncio.run(main())
    assert [ref() for ref in held] == [None] * 20
