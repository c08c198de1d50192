"""Symbols that never evaluate text.

SymPy evaluates text wherever a method takes an expression, ``d_k.subs(n, "…")`` or
``d_k.diff("…")``, and evaluating it runs whatever stands in it.  So every public method and every
operator that our symbols have from SymPy looks at its arguments first, inside collections too, and
refuses text.

Invariant: the methods are found in SymPy rather than listed here, so one that SymPy gains is
guarded as well.  What SymPy builds from our symbols, the ``2*m`` of ``A.shape``, are classes of its
own, whose methods nothing here can guard: never hand text that you have not written to those.
Nothing in symattn does.
"""

from __future__ import annotations

import functools
import inspect
from collections import UserString
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

import sympy

from symattn.errors import TextRefusedError

_TEXT = (str, bytes, bytearray, UserString, PurePath)
"""What SymPy evaluates, or turns into text that it evaluates."""

_HARMLESS = (sympy.Basic, int, float, type)
"""What holds no text: SymPy's own objects, the numbers of Python, classes."""

_OPERATORS = frozenset(
    f"__{side}{name}__"
    for name in (
        *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
        *("and", "or", "xor", "lshift", "rshift"),
    )
    for side in ("", "r")
) | {"__lt__", "__le__", "__gt__", "__ge__"}

_DIRECTIONS = frozenset({"+", "-", "+-"})
_ORDERS = frozenset({"lex", "grlex", "grevlex", "rev-lex", "rev-grlex", "rev-grevlex", "old"})
_OPTION_WORDS = {
    "limit": _DIRECTIONS,
    "series": _DIRECTIONS,
    "lseries": _DIRECTIONS,
    "nseries": _DIRECTIONS,
    "sort_key": _ORDERS,
    "as_terms": _ORDERS,
    "as_ordered_terms": _ORDERS,
    "as_ordered_factors": _ORDERS,
}
"""By method: the words that are an option there, and no expression."""


def refuse_text(call: str, *values: Any) -> None:
    """Raise if a string stands among the values: SymPy would evaluate it.

    >>> refuse_text("subs", {2: [1, "m"]})
    Traceback (most recent call last):
        ...
    symattn.errors.TextRefusedError: subs does not take text ('m'): text is never evaluated; ...
    """
    without_text(call, *values)


def without_text(call: str, *values: Any) -> tuple[Any, ...]:
    """Return the values after refusing text in any of them; what can be read once, as a list.

    >>> without_text("subs", iter([1, 2]))
    ([1, 2],)
    """
    return tuple([_checked(call, value) for value in values])


def _checked(call: str, value: Any) -> Any:
    """Return a value that holds no text, or raise `TextRefusedError`."""
    if isinstance(value, _HARMLESS):
        return value
    if isinstance(value, _TEXT):
        raise TextRefusedError(call, str(value))
    if isinstance(value, Mapping):
        items: list[tuple[Any, Any]] = list(value.items())
        checked = [(_checked(call, key), _checked(call, item)) for key, item in items]
        same = all(a is c and b is d for (a, b), (c, d) in zip(items, checked, strict=True))
        return value if same else dict(checked)
    if isinstance(value, Iterable) and getattr(value, "shape", None) != ():  # not an array of none
        parts: list[Any] = list(value)
        listed = [_checked(call, part) for part in parts]
        same = all(old is new for old, new in zip(parts, listed, strict=True))
        if same and not isinstance(value, Iterator):
            return value
        return tuple(listed) if isinstance(value, tuple) else listed
    return value


def _guarded(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of SymPy's that refuses text among its arguments."""
    words = _OPTION_WORDS.get(name, frozenset())

    def checked(value: Any) -> Any:
        is_option = isinstance(value, str) and value in words
        return value if is_option else _checked(name, value)

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = tuple([checked(value) for value in args])
        if kwargs:
            kwargs = {key: checked(value) for key, value in kwargs.items()}
        return method(self, *args, **kwargs)

    return guarded


class Guarded:
    """The methods and operators of a SymPy symbol, each refusing text; a base before SymPy's.

    >>> class Name(Guarded, sympy.Symbol):
    ...     pass
    >>> Name("x").diff("__import__('os')")
    Traceback (most recent call last):
        ...
    symattn.errors.TextRefusedError: diff does not take text ("__import__('os')"): ...
    """

    __slots__ = ()


for _name in dir(sympy.Symbol):
    _method = inspect.getattr_static(sympy.Symbol, _name)
    if inspect.isfunction(_method) and (_name in _OPERATORS or not _name.startswith("_")):
        setattr(Guarded, _name, _guarded(_name, _method))
