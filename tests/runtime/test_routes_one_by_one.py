"""Calls of which the straight line and the slow way could easily think differently."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, TypeAlias

import numpy as np
import pytest

import symattn as sa
from symattn.runtime.checked import Checked
from tests.runtime.random_types import Duck


def array(*shape: int) -> np.ndarray:
    return np.zeros(shape)


def test_an_integer_is_a_size_though_no_argument_has_an_axis_of_it() -> None:
    @sa.shapecheck
    def f(x: Annotated[np.ndarray, "n^2"], h: int, wide: bool) -> Annotated[np.ndarray, "n h"]:
        assert sa.bindings() == {"n": 2, "h": 3}
        return array(2, 9 if wide else 3)  # found the slow way, because of the square

    assert f(array(4), 3, False).shape == (2, 3)
    with pytest.raises(sa.ShapeCheckError, match="h = 3"):
        f(array(4), 3, True)


def test_an_integer_in_a_record_is_a_size_of_the_result() -> None:
    @dataclass
    class Config:
        h: int
        layers: int
        W: Annotated[np.ndarray, "k"]

    @sa.shapecheck
    def f(x: Annotated[np.ndarray, "n^2"], c: Config, h: int) -> Annotated[np.ndarray, "n h"]:
        return array(2, 3)

    assert f(array(4), Config(3, -1, array(5)), 3).shape == (2, 3)
    with pytest.raises(sa.ShapeCheckError) as raised:
        f(array(4), Config(4, -1, array(5)), 3)
    assert set(raised.value.culprits) == {"c", "h"}
    with pytest.raises(sa.ShapeCheckError, match=r"c\.h = -4"):
        f(array(4), Config(-4, -1, array(5)), 3)


def test_dots_are_axes_of_an_array() -> None:
    @sa.shapecheck("x: ..., y: n")
    def f(x: Any, y: Any) -> None:
        pass

    f(array(2, 3), array(4))
    for wrong in ("text", 2.5, SimpleNamespace(shape="ab"), SimpleNamespace(shape=None)):
        with pytest.raises(sa.TypeCheckError, match="x is "):
            f(wrong, array(4))


class Layer:
    """Sizes that its constructor binds hold in what may be absent, in results, and in bodies."""

    @sa.shapecheck
    def __init__(self, W: Annotated[np.ndarray, "d n"]) -> None:
        pass

    @sa.shapecheck
    def masked(
        self, x: Annotated[np.ndarray, "k"], mask: Annotated[np.ndarray, "n"] | None = None
    ) -> Annotated[np.ndarray, "d"] | None:
        return None if len(x) < 2 else x

    @sa.shapecheck
    def given(
        self, x: Annotated[np.ndarray, "k"], n: int | None = None
    ) -> Annotated[np.ndarray, "n"]:
        return x

    @sa.shapecheck
    def sees(self, x: Annotated[np.ndarray, "k"]) -> Any:
        return sa.bindings(), sa.expect(x, "n")

    @sa.shapecheck
    async def sees_later(self, x: Annotated[np.ndarray, "k"]) -> Any:
        return await asyncio.create_task(expected(x))


async def expected(x: Any) -> Any:
    return sa.bindings(), sa.expect(x, "n")


def test_sizes_of_an_instance_hold_for_what_may_be_absent() -> None:
    layer = Layer(array(3, 5))
    assert layer.masked(array(1), array(5)) is None
    assert layer.masked(array(3)) is not None
    with pytest.raises(sa.ShapeCheckError, match="n = 5"):
        layer.masked(array(1), array(4))
    with pytest.raises(sa.ShapeCheckError, match="the result"):
        layer.masked(array(4))


def test_a_result_that_does_not_fit_adds_no_sizes() -> None:
    layer = Layer(array(3, 5))
    assert layer.given(array(5)).shape == layer.given(array(5), 5).shape
    with pytest.raises(sa.ShapeCheckError, match="the result"):
        layer.given(array(4))


def test_a_body_sees_all_sizes_of_its_instance() -> None:
    layer = Layer(array(3, 5))
    for seen, _ in (layer.sees(array(5)), asyncio.run(layer.sees_later(array(5)))):
        assert seen == {"d": 3, "n": 5, "k": 5}
    with pytest.raises(sa.ShapeCheckError, match="n = 5"):
        layer.sees(array(4))
    with pytest.raises(sa.ShapeCheckError, match="n = 5"):
        asyncio.run(layer.sees_later(array(4)))


def test_sizes_that_nobody_gives_are_asked_for_before_the_body_runs() -> None:
    class Open:
        @sa.shapecheck
        def f(
            self, x: Annotated[np.ndarray, "k"], more: list[Annotated[np.ndarray, "h*d"]]
        ) -> Annotated[np.ndarray, "a*b"] | None:
            raise AssertionError("run")

    with pytest.raises(sa.SpecError, match="cannot be told"):
        Open().f(array(3), [])


def test_a_result_is_compared_with_what_was_absent_or_there() -> None:
    @sa.shapecheck
    def f(
        x: Annotated[np.ndarray, "k"], mask: Annotated[np.ndarray, "n"] | None = None
    ) -> Annotated[np.ndarray, "2*n"]:
        return x

    assert f(array(8)).shape == f(array(8), array(4)).shape
    with pytest.raises(sa.ShapeCheckError, match="n = 5"):
        f(array(8), array(5))
    with pytest.raises(sa.ShapeCheckError, match="the result"):
        f(array(7))


def test_an_equation_waits_for_the_result_only_while_it_is_open() -> None:
    ran: list[int] = []

    @sa.shapecheck
    def f(
        x: Annotated[np.ndarray, "h*d_k"], d_k: int, y: Annotated[np.ndarray, "h"] | None = None
    ) -> Annotated[np.ndarray, "d_k"]:
        ran.append(d_k)
        return array(d_k)

    @sa.shapecheck
    def g(
        x: Annotated[np.ndarray, "h*d_k"], n: int, y: Annotated[np.ndarray, "h"] | None = None
    ) -> Annotated[np.ndarray, "d_k"]:
        ran.append(n)
        return array(n)

    for function in (f, g):
        assert function(array(12), 4).shape == function(array(12), 4, array(3)).shape
        ran.clear()
        with pytest.raises(sa.ShapeCheckError):
            function(array(12), 4, array(5))
        assert not ran
    with pytest.raises(sa.ShapeCheckError, match="the result"):
        g(array(12), 5)


def test_every_reading_of_the_arguments_waits_for_the_result() -> None:
    @sa.shapecheck
    def f(
        x: Annotated[np.ndarray, "c+d 1"] | Annotated[np.ndarray, "_ 1"], d: int = 0
    ) -> tuple[Annotated[np.ndarray, "c"], Annotated[np.ndarray, "d"]]:
        return array(6), array(d)

    assert len(f(array(2, 1), 5)) == 2


def test_integers_that_may_be_absent_are_sizes_too() -> None:
    @sa.shapecheck
    def f(
        x: Annotated[np.ndarray, "n"],
        h: int | None = None,
        y: Annotated[np.ndarray, "n+h"] | None = None,
    ) -> None:
        raise AssertionError("run")

    with pytest.raises(sa.TypeCheckError, match="h is -1"):
        f(array(5), -1, array(4))

    @dataclass
    class Config:
        h: int
        W: Annotated[np.ndarray, "n+h"]

    @sa.shapecheck
    def g(x: Annotated[np.ndarray, "n"], c: Config) -> None:
        raise AssertionError("run")

    with pytest.raises(sa.ShapeCheckError, match="no size"):
        g(array(5), Config(-1, array(4)))


def test_several_arguments_are_no_size() -> None:
    @sa.shapecheck("x: n d")
    def f(x: Any, *n: int, **d: int) -> Any:
        return dict(sa.bindings())

    assert f(array(2, 3), 7, 8, k=9) == {"n": 2, "d": 3}


def test_sizes_that_are_no_numbers_do_not_hide_an_error() -> None:
    class Symbolic:
        def __ge__(self, other: object) -> bool:
            return True

    @sa.shapecheck("x: n m, y: m")
    def f(x: Any, y: Any) -> None:
        raise ValueError("of the body")

    size: Any = Symbolic()
    with pytest.raises(ValueError, match="of the body") as raised:
        f(Duck((size, 3)), Duck((3,)))
    assert raised.value.__notes__ == ["in f(): m = 3 (x)"]


def test_names_that_are_no_identifiers_are_written_otherwise() -> None:
    def f(x: Any) -> Any:
        return x

    f.__qualname__ = "f²"
    checked = sa.shapecheck("x: n n_ ñ -> ñ n_ n")(f)
    assert checked(array(3, 3, 3)).shape == (3, 3, 3)
    with pytest.raises(sa.ShapeCheckError, match="the result"):
        checked(array(3, 4, 5))


def test_the_source_of_an_optional_argument_asks_once() -> None:
    @sa.shapecheck
    def f(x: Annotated[np.ndarray, "n"], mask: Annotated[np.ndarray, "n m"] | None = None) -> None:
        pass

    source: Any = f
    assert source.__shapecheck__.source.text.count("mask is not") == 1


def test_an_integer_without_annotation_is_solved_for_at_once() -> None:
    @sa.shapecheck("x: n h*d_k -> h n d_k")
    def f(x: Any, h: Any) -> Any:
        return x.reshape(len(x), h, -1).swapaxes(0, 1)

    checked: Any = f
    assert "d_k = x_1 // h_" in checked.__shapecheck__.source.text
    assert f(array(5, 12), np.int64(3)).shape == (3, 5, 4)
    with pytest.raises(sa.ShapeCheckError, match="leaves 2"):
        f(array(5, 12), 5)


def list_of_rows(xs: list[Annotated[np.ndarray, "n d"]]) -> Annotated[np.ndarray, "2*n d"]:
    return array(8, 3)


def optional_rows(x: Annotated[np.ndarray, "n d"] | None) -> Annotated[np.ndarray, "2*n"]:
    return array(8)


def optional_integer(
    x: Annotated[np.ndarray, "d"], n: int | None
) -> Annotated[np.ndarray, "2*n d"]:
    return array(8, 3)


def product_of_heads(
    W: Annotated[np.ndarray, "h*d n"], heads: list[Annotated[np.ndarray, "h d"]]
) -> Annotated[np.ndarray, "n"]:
    return array(W.shape[1])


def product_of_a_bias(
    W: Annotated[np.ndarray, "h*d n"], bias: Annotated[np.ndarray, "h d"] | None = None
) -> Annotated[np.ndarray, "n"]:
    return array(W.shape[1])


def quotient_of_heads(
    b: Annotated[np.ndarray, "m//h+1"], xs: list[Annotated[np.ndarray, "h m"]]
) -> Annotated[np.ndarray, "3"]:
    return array(3)


@pytest.mark.parametrize(
    ("function", "right", "wrong"),
    [
        (list_of_rows, ([array(4, 3)],), ([array(5, 3)],)),
        (list_of_rows, ([],), ([array(4, 5)],)),
        (optional_rows, (array(4, 3),), (array(7, 3),)),
        (optional_integer, (array(3), 4), (array(3), 5)),
        (optional_integer, (array(3), None), (array(5), None)),
        (product_of_heads, (array(6, 7), [array(2, 3)]), (array(9, 7), [array(2, 3)])),
        (product_of_heads, (array(6, 7), []), (array(6, 7), [array(2, 3), array(3, 2)])),
        (product_of_a_bias, (array(6, 7), array(2, 3)), (array(9, 7), array(2, 3))),
        (quotient_of_heads, (array(4), [array(2, 6)]), (array(7), [array(2, 6)])),
    ],
)
def test_sizes_of_what_may_be_absent_hold_everywhere(function: Any, right: Any, wrong: Any) -> None:
    checked = sa.shapecheck(function)
    checked(*right)
    with pytest.raises(sa.ShapeCheckError):
        checked(*wrong)


@pytest.mark.parametrize("spec", ["n*n 3", "*#b 3", "n 3"])
def test_an_integer_of_the_result_alone_is_kept_on_both_routes(spec: str) -> None:
    @sa.shapecheck
    def f(
        x: Annotated[np.ndarray, spec], k: int, wide: bool = False
    ) -> Annotated[np.ndarray, "k 3"]:
        sa.expect(array(k), "k")
        with pytest.raises(sa.ShapeCheckError):
            sa.expect(array(k + 1), "k")
        return array(9 if wide else k, 3)

    @sa.shapecheck
    def g(
        x: Annotated[np.ndarray, spec] | Annotated[np.ndarray, "1 1"], k: int
    ) -> Iterator[Annotated[np.ndarray, "k 3"]]:
        yield from (array(2, 3), array(9, 3))

    assert f(array(4, 3), 2).shape == (2, 3)
    with pytest.raises(sa.ShapeCheckError, match="the result"):
        f(array(4, 3), 2, True)
    values = g(array(4, 3), 2)
    next(values)
    with pytest.raises(sa.ShapeCheckError, match="the value yielded"):
        next(values)


@sa.shapecheck
def read_later(x: Annotated[Later, "d"], k: int) -> Annotated[Later, "k d"]:
    return array(9, 3)


Later: TypeAlias = np.ndarray


def test_an_integer_is_kept_by_the_first_call_of_what_is_read_later() -> None:
    with pytest.raises(sa.ShapeCheckError, match="the result"):
        read_later(array(3), 2)


def test_an_integer_that_contradicts_the_instance_is_refused_before_the_body_runs() -> None:
    @sa.shapecheck
    class Of:
        def __init__(self, k: int) -> None:
            pass

        def f(self, x: Annotated[np.ndarray, "n d"], k: int) -> Annotated[np.ndarray, "k d"]:
            raise AssertionError("run")

    with pytest.raises(sa.ShapeCheckError, match="k = 5, but 2") as raised:
        Of(2).f(array(4, 3), 5)
    assert raised.value.culprits == ("k",)


def test_a_method_that_declares_a_rest_alone_goes_the_straight_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Norm:
        @sa.shapecheck
        def __call__(self, x: Annotated[np.ndarray, "*axes"]) -> Annotated[np.ndarray, "*axes"]:
            return x

    def slow(*_: object) -> Any:
        raise AssertionError("the slow way")

    monkeypatch.setattr(Checked, "arguments", slow)
    assert Norm()(array(2, 3)).shape == (2, 3)
