"""The operators ``+ - @ * / .T``: each builds the operation of that name, as it is written.

The classes of operations stand on the base that has these operators, so they register themselves
here under the name of what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from symattn.nodes.core import Node

_OPERATIONS: dict[str, Callable[..., Node]] = {}

_Builder = TypeVar("_Builder", bound=Callable[..., "Node"])


def operation(name: str) -> Callable[[_Builder], _Builder]:
    """Register a class or function as what the operator of that name builds.

    >>> @operation("twice")
    ... def twice(x):
    ...     return x + x
    """

    def register(builder: _Builder) -> _Builder:
        _OPERATIONS[name] = builder
        return builder

    return register


def _build(operation: str, *operands: Any) -> Node:
    return _OPERATIONS[operation](*operands)


def _is_zero(value: Any) -> bool:
    """Tell whether a value is the 0 from which ``sum([A, B])`` starts."""
    return type(value) is int and value == 0


class Operators:
    """The operators of a matrix expression; a base before SymPy's, whose own simplify."""

    def __matmul__(self, other: Any) -> Node:
        return _build("product", self, other)

    __mul__ = __matmul__

    def __rmatmul__(self, other: Any) -> Node:
        return _build("product", other, self)

    __rmul__ = __rmatmul__

    def __add__(self, other: Any) -> Node:
        return cast("Node", self) if _is_zero(other) else _build("sum", self, other)

    def __radd__(self, other: Any) -> Node:
        return cast("Node", self) if _is_zero(other) else _build("sum", other, self)

    def __sub__(self, other: Any) -> Node:
        return cast("Node", self) if _is_zero(other) else _build("difference", self, other)

    def __rsub__(self, other: Any) -> Node:
        return -self if _is_zero(other) else _build("difference", other, self)

    def __neg__(self) -> Node:
        return _build("negation", self)

    def __pos__(self) -> Node:
        return cast("Node", self)

    def __truediv__(self, other: Any) -> Node:
        return _build("quotient", self, other)

    @property
    def T(self) -> Node:
        """The transpose, as written: ``X.T.T`` stays so."""
        return _build("transpose", self)

    def transpose(self) -> Node:
        """Return the transpose."""
        return self.T
