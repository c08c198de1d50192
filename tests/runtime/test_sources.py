"""The generated sources: no parameter hides what they need, and nothing else is hidden by them."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from types import CodeType, FunctionType
from typing import Annotated, Any

import numpy as np
import pytest

import symattn as sa
from tests.runtime.random_types import Duck

N_D = Annotated[np.ndarray, "n d"]
H_D = Annotated[np.ndarray, "h d"]
A = np.zeros((3, 4))


def code_names(code: CodeType) -> set[str]:
    return {*code.co_names}


# -- names


def test_a_parameter_called_isinstance() -> None:
    ran: list[int] = []

    @sa.shapecheck
    def f(x: N_D, isinstance: Any) -> None:
        ran.append(1)

    with pytest.raises(sa.TypeCheckError):
        f(Duck((3, 4)), lambda *_: ran.append(2) or True)  # pyright: ignore[reportArgumentType]
    assert not ran
    f(A, None)


def test_a_parameter_called_tuple() -> None:
    @sa.shapecheck("x: *b n")
    def f(x: Any, tuple: Any, len: Any) -> Any:
        return dict(sa.bindings())

    assert f(np.zeros((2, 3, 4)), lambda _: (9, 9), lambda _: 9) == {"b": (2, 3), "n": 4}


def test_parameters_called_as_exceptions() -> None:
    @sa.shapecheck("x: n+n n*n")
    def f(x: Any, Exception: Any, type: Any, int: Any) -> Any:
        raise ValueError("of the body")

    with pytest.raises(ValueError, match="of the body"):
        f(np.zeros((4, 4)), 3, None, None)
    with pytest.raises(sa.ShapeCheckError):
        f(np.zeros((4, 5)), 3, None, None)


USED = ("isinstance", "type", "int", "tuple", "len", "Exception", "BaseException", "GeneratorExit")
USED += ("StopAsyncIteration", "STATE", "is_shaped", "cannot_tell", "__shapecheck__", "unchecked")
BODIES = {
    "plain": "def f({}, *, n): return BODY",
    "coroutine": "async def f({}, *, n): return BODY",
    "generator": "def f({}, *, n): yield BODY",
    "asynchronous generator": "async def f({}, *, n): yield BODY",
}


@pytest.mark.parametrize("name", USED)
@pytest.mark.parametrize("kind", BODIES)
def test_no_parameter_stands_for_a_name_that_the_source_uses(kind: str, name: str) -> None:
    """A source with such a parameter asks for the same objects as one without."""
    sources: list[str] = []
    for parameter in (name, "unused"):
        names: dict[str, Any] = {"BODY": A}
        exec(BODIES[kind].format(f"x, y, {parameter}"), names)
        f: Any = sa.shapecheck("x: *b n h*2, y: h -> h")(names["f"])
        sources.append(f.__shapecheck__.source.text)
        used = code_names(f.__code__)
        assert all(key in f.__globals__ or hasattr(builtins, key) for key in used - ATTRIBUTES)
    hidden, plain = (text.replace("unused", name) for text in sources)
    uses = name in code_names(f.__code__)
    assert (hidden != plain) == uses, hidden


ATTRIBUTES = {
    *("unusual", "is_on", "shape", "arguments", "result", "note", "each", "yielded"),
    *("__anext__", "aclose", "athrow", "asend"),
}


# -- globals


def caller_name(depth: int = 1) -> str:
    return sys._getframe(depth + 1).f_globals["__name__"]  # pyright: ignore[reportPrivateUsage]


def test_a_body_may_ask_who_calls_it() -> None:
    @sa.shapecheck("x: n")
    def f(x: Any) -> Any:
        warnings.warn("old", DeprecationWarning, stacklevel=2)
        return caller_name(), dict(sa.bindings())

    with pytest.warns(DeprecationWarning, match="old"):
        assert f(np.zeros(3)) == (__name__, {"n": 3})
    assert f.__module__ == __name__


def test_a_copy_with_only_the_globals_that_are_named_has_sizes() -> None:
    """As cloudpickle copies functions."""

    @sa.shapecheck("x: n m -> m")
    def f(x: Any) -> Any:
        return sa.expect(np.zeros(sa.bindings()["m"]), "m")

    named = {key: f.__globals__[key] for key in f.__code__.co_names if key in f.__globals__}
    copy = FunctionType(f.__code__, named, f.__name__)
    assert copy(A).shape == (4,)


# -- exceptions


class Alarm(Exception):
    """As a signal handler raises it."""


class Interrupted:
    def __init__(self, error: Exception) -> None:
        self.error = error

    @property
    def shape(self) -> Any:
        raise self.error


@pytest.mark.parametrize("annotation", [Any, Interrupted])
@pytest.mark.parametrize("error", [TimeoutError("late"), Alarm("late")])
def test_foreign_exceptions_pass(error: Exception, annotation: Any) -> None:
    def f(x: Any) -> None:
        raise AssertionError("run")

    f.__annotations__["x"] = Annotated[annotation, "n d"]
    with pytest.raises(type(error), match="late"):
        sa.shapecheck(f)(Interrupted(error))
    with pytest.raises(type(error), match="late"):
        sa.shapecheck("x: n*n d*d")(lambda x: x)(Interrupted(error))


@pytest.mark.parametrize("error", [AttributeError(), NotImplementedError(), ValueError()])
def test_what_has_no_shape_says_so(error: Exception) -> None:
    @sa.shapecheck("x: n d")
    def f(x: Any) -> None:
        raise AssertionError("run")

    with pytest.raises(sa.TypeCheckError):
        f(Interrupted(error))


# -- shapes that are none


NO_SHAPES = [("a", "b"), ([], []), (-5, 3), (True, 3), (2.0, 3), "ab", [2.5, 3], (3, (4,)), None]


@pytest.mark.parametrize("shape", NO_SHAPES, ids=repr)
@pytest.mark.parametrize("spec", ["n d", "*b", "...", "_ d", "n*n d", "2*n ...", "#n d"])
def test_what_is_no_shape_is_refused(spec: str, shape: Any) -> None:
    ran: list[int] = []

    def f(x: Any, d: int = 3) -> None:
        ran.append(1)

    for checked in (sa.shapecheck(f"x: {spec}")(f), sa.shapecheck(annotated(f, spec))):
        with pytest.raises(sa.TypeCheckError):
            checked(Duck(shape))
        with pytest.raises(sa.TypeCheckError):
            checked(type("Class", (), {"shape": (1, 3)}))
        assert not ran
        checked(Duck((4, 3)))
        ran.clear()


def annotated(f: Any, spec: str) -> Any:
    copy = FunctionType(f.__code__, f.__globals__, "f", f.__defaults__, f.__closure__)
    copy.__annotations__ = {"x": sa.M[spec]}
    return copy


def test_symbols_stand_in_shapes() -> None:
    @sa.shapecheck("x: ... n d, y: d")
    def f(x: Any, y: Any) -> Any:
        return dict(sa.bindings())

    symbol: Any = object()
    assert f(Duck((symbol, symbol, 3)), Duck((3,))) == {"d": 3}
    assert f(Duck((None, symbol, 3)), Duck((3,))) == {"d": 3}  # pyright: ignore[reportArgumentType]


def test_real_arrays_take_the_straight_line() -> None:
    @sa.shapecheck("x: n d, y: *b d -> n")
    def f(x: Any, y: Any) -> Any:
        return np.zeros(3)

    slow_way: Any = f
    slow_way.__shapecheck__.arguments = slow_way.__shapecheck__.result = None  # not asked
    assert f(A, A).shape == f(Duck((3, 4)), A).shape == (3,)


# -- what the arguments leave open, after the call


def test_what_is_yielded_is_compared_with_equations_of_the_arguments() -> None:
    @sa.shapecheck
    def f(x: Annotated[np.ndarray, "h*d"], *shapes: tuple[int, int]) -> Iterator[H_D]:
        for shape in shapes:
            yield np.zeros(shape)

    @sa.shapecheck
    async def g(x: Annotated[np.ndarray, "h*d"], *shapes: tuple[int, int]) -> AsyncIterator[H_D]:
        for shape in shapes:
            yield np.zeros(shape)

    async def listed(*shapes: tuple[int, int]) -> list[Any]:
        return [one async for one in g(np.zeros(12), *shapes)]

    assert inspect.isgeneratorfunction(f)
    assert len(list(f(np.zeros(12), (3, 4), (2, 6)))) == 2
    assert len(asyncio.run(listed((3, 4), (2, 6)))) == 2
    with pytest.raises(sa.ShapeCheckError, match="the value yielded"):
        list(f(np.zeros(12), (3, 4), (7, 7)))
    with pytest.raises(sa.ShapeCheckError, match="the value yielded"):
        asyncio.run(listed((3, 4), (7, 7)))


def test_what_a_body_expects_takes_no_equation_of_the_arguments_away() -> None:
    @sa.shapecheck
    def f(x: Annotated[np.ndarray, "h*d"], h: int | None = None) -> Annotated[np.ndarray, "h d"]:
        return sa.expect(np.zeros((7, 7)), "h d")

    with pytest.raises(sa.ShapeCheckError):
        f(np.zeros(12))
    assert f(np.zeros(49)).shape == (7, 7)
