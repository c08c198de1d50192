"""Indices: a name and the size that it runs over; nothing that reads text."""

import copy
import pickle
from typing import Any

import pytest
import sympy

import symattn as sa
from symattn.nodes.indices import AxisIndex
from symattn.tags import Size

h, n = sa.dims("h n")
i: Any = sa.index("i", h)
CODE: Any = "__import__('os')"


def test_an_index_is_its_name_and_its_size() -> None:
    assert i == sa.index("i", h) == sa.index("i", "h")
    assert hash(i) == hash(sa.index("i", h))
    assert len({i, sa.index("i", n), sa.index("j", h), sympy.Symbol("i"), sa.scalar("i")}) == 5
    assert (i.name, i.size) == ("i", Size.tag("h"))
    assert (i.is_integer, i.is_nonnegative) == (True, True)


@pytest.mark.parametrize(("size", "meaning"), [(3, "3"), (2 * n, "2*n"), (h * n, "h*n")])
def test_what_an_index_runs_over(size: Any, meaning: str) -> None:
    assert str(sa.index("i", size).size) == meaning


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies(copied: Any) -> None:
    other = sa.index("i", n)
    assert copied(i) == i
    assert copied(i).size == i.size
    assert copied(i + other) == i + other


def test_two_indices_of_one_name_stay_apart() -> None:
    other = sa.index("i", n)
    assert i - other != 0
    assert (i - other).xreplace({other: i}) == 0
    assert (i + other).args == (other + i).args


def test_an_index_prints_its_name() -> None:
    assert (str(i), sympy.latex(sa.index("alpha", h))) == ("i", r"\alpha")
    assert sympy.srepr(i) == "AxisIndex('i', 'h')"
    assert AxisIndex("i", "h") == i


@pytest.mark.parametrize("name", ["", "2", "i j", "i*j", 3, None])
def test_what_is_no_name(name: Any) -> None:
    with pytest.raises(sa.NameSyntaxError):
        sa.index(name, h)


@pytest.mark.parametrize("size", [0, -1, True, 2.5, None, sympy.oo])
def test_what_is_no_size(size: Any) -> None:
    with pytest.raises(sa.SizeError):
        sa.index("i", size)


def test_an_index_evaluates_no_text() -> None:
    with pytest.raises(sa.TextRefusedError):
        _ = i.subs(i, CODE)
    with pytest.raises(sa.TextRefusedError):
        _ = i + CODE


def test_an_index_is_no_number_of_a_formula() -> None:
    with pytest.raises(sa.NotAnOperandError):
        _ = i * sa.matrix("Q", h, n)
    with pytest.raises(sa.SizeError):
        sa.matrix("Q", i, n)
