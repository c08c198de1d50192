"""What the values of unions are read as, where there are many ways to read them."""

from __future__ import annotations

import itertools
from random import Random
from typing import Annotated, Any

import numpy as np
import pytest

import symattn as sa
from symattn.runtime.declared.hints import Either, Met, Reading
from symattn.runtime.judging import choosing
from symattn.runtime.judging.equations import settle
from tests.runtime.calls import array, count

N_D = Annotated[np.ndarray, "n d"]
D_N = Annotated[np.ndarray, "d n"]
A = np.zeros((3, 4))


@sa.shapecheck
def all_of(x: N_D, xs: list[N_D | D_N]) -> Any:
    return dict(sa.bindings())


@sa.shapecheck
def with_products(xs: list[Annotated[np.ndarray, "2*n d"] | Annotated[np.ndarray, "d 2*n"]]) -> Any:
    return dict(sa.bindings())


@pytest.mark.parametrize("many", [6, 7, 40, 2000])
def test_a_list_may_be_long(many: int) -> None:
    assert all_of(A, [A.T] * many) == {"n": 3, "d": 4}
    with pytest.raises(sa.ShapeCheckError) as raised:
        all_of(A, [A.T, A] * (many // 2) + [np.zeros((3, 5))])
    assert raised.value.culprits == ("xs",)
    assert f"xs[{many // 2 * 2}]" in str(raised.value)


def test_many_arguments_may_be_unions() -> None:
    @sa.shapecheck
    def f(a: N_D | D_N, *b: N_D | D_N, **c: N_D | D_N) -> Any:
        return dict(sa.bindings())

    assert f(A, *[A.T] * 9, c=A.T, d=A) == {"n": 3, "d": 4}


def test_an_equation_decides_too() -> None:
    W = np.zeros((6, 5))
    assert with_products([W, *[W.T, W] * 20]) == {"n": 3, "d": 5}
    with pytest.raises(sa.ShapeCheckError):
        with_products([W, *[W.T, W] * 20, np.zeros((6, 6))])


def test_square_arrays_are_read_either_way() -> None:
    square = np.zeros((3, 3))
    assert all_of(square, [square] * 50) == {"n": 3, "d": 3}
    with pytest.raises(sa.ShapeCheckError):
        all_of(square, [*[square] * 50, A])


def test_a_search_that_is_cut_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MOST_TRIED", (2, 0))
    with pytest.raises(sa.NotSupportedError, match="2 were tried"):
        all_of(A, [A.T] * 7)


def test_the_reading_in_an_error_came_furthest() -> None:
    reading = (
        Either(((array("x", "n d", (3, 4)),), (array("x", "d n", (3, 4)),))),
        Either(((array("y", "n", (4,)),), (array("y", "d d", (4, 4)),))),
        Either(((array("z", "n n", (3, 4)),), (array("z", "d", (5,)),))),
    )
    items, sizes = choosing.chosen(reading, {})
    assert sizes is None
    assert [item.hint.spec.text for item in items if isinstance(item, Met)] == ["n d", "d d", "n n"]


def drawn(r: Random, depth: int = 0) -> Reading:
    found: list[Any] = []
    for k in range(r.randint(1, 3)):
        place = f"x{k}{depth}"
        if depth < 2 and r.random() < 0.5:
            found.append(Either(tuple(drawn(r, depth + 1) for _ in range(2))))
        elif r.random() < 0.15:
            found.append(count(place, r.randint(1, 3), tag=r.choice("nmd")))
        else:
            specs = ["n", "m", "d", "n+m", "n*m", "2*n", "d*n", "#n", "n^2", "n*d+m"]
            found.append(array(place, r.choice(specs), (r.choice([1, 2, 2, 3, 4, 6]),)))
    return tuple(found)


def flat(reading: Reading) -> list[list[Any]]:
    """All readings without choices, in order."""
    parts = [
        [one for option in item.options for one in flat(option)]
        if isinstance(item, Either)
        else [[item]]
        for item in reading
    ]
    return [[a for one in made for a in one] for made in itertools.product(*parts)]


def test_the_first_that_fits_is_found() -> None:
    fits = 0
    for seed in range(600):
        reading = drawn(Random(seed))
        sizes = next((s for one in flat(reading) if (s := settle(one, {})) is not None), None)
        found = choosing.chosen(reading, {})
        assert found[1] == sizes, seed
        fits += sizes is not None
    assert 100 < fits < 500
