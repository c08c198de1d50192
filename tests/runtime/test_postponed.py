"""Annotations that are text: names local to a function, defined later, never defined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pytest

import symattn as sa

if TYPE_CHECKING:
    from somewhere import Unknown  # pyright: ignore[reportMissingImports]


def array(*shape: int) -> np.ndarray:
    return np.zeros(shape)


def test_names_of_the_enclosing_function_are_found() -> None:
    Column = Annotated[np.ndarray, "n 1"]

    def inside() -> Any:
        Row = Annotated[np.ndarray, "1 n"]

        class A:
            Square = Annotated[np.ndarray, "n n"]

            @sa.shapecheck
            def outer(self, x: Column, y: Row) -> Square:  # pyright: ignore
                return x @ y

        return A()

    a = inside()
    assert a.outer(array(3, 1), array(1, 3)).shape == (3, 3)
    with pytest.raises(sa.ShapeCheckError):
        a.outer(array(3, 1), array(1, 4))


class Tree:
    """A class whose methods take instances of it."""

    @sa.shapecheck
    def __init__(self, x: Annotated[np.ndarray, "n"], below: Tree | None = None) -> None:
        self.x = x
        self.below = below

    @sa.shapecheck
    def joined(self, other: Tree, y: Annotated[np.ndarray, "n d"]) -> Tree:
        return Tree(self.x, other)


def test_a_class_may_name_itself() -> None:
    tree = Tree(array(3))
    assert tree.joined(Tree(array(4)), array(3, 2)).below is not None
    for _ in range(2):
        with pytest.raises(sa.ShapeCheckError):
            tree.joined(tree, array(4, 2))
    with pytest.raises(sa.TypeCheckError):
        tree.joined(3, array(3, 2))  # pyright: ignore[reportArgumentType]


@sa.shapecheck
def early(later: Later) -> Annotated[np.ndarray, "n"]:
    return later.x[0]


@dataclass
class Later:
    x: Annotated[np.ndarray, "d n"]


def test_a_class_may_be_defined_later() -> None:
    assert early(Later(array(2, 3))).shape == (3,)
    assert early.__code__.co_varnames[:1] == ("later",)
    with pytest.raises(sa.ShapeCheckError):
        early(Later(array(2)))


@sa.shapecheck
def never(x: Annotated[np.ndarray, "n"], y: Unknown) -> None: ...


def test_a_name_that_is_never_defined_is_refused_and_nothing_runs() -> None:
    for _ in range(2):
        with pytest.raises(sa.SpecError, match="Unknown"):
            never(array(3), 1)
