"""What counts as a size when a person or an array gives one: an integer, and large enough."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from symattn.errors import SizeError

_PROBLEMS = {1: "positive", 0: "non-negative", None: "integer"}


def check_size(what: str, value: object, least: int | None = 1) -> int:
    """The integer that `value` is (NumPy's count, booleans do not), if it is large enough.

    >>> check_size("n", 5)
    5
    >>> check_size("n", True)
    Traceback (most recent call last):
        ...
    symattn.errors.SizeError: n must be a positive integer, but is True

    `least` is 1 for a declared size, 0 for one met at run time, None for any integer, and more for
    what counts something else. Raises
    `SizeError`, which names what was to be a size.
    """
    if type(value) is int and (least is None or value >= least):  # nearly always, and soon said
        return value
    number = None
    # NumPy's booleans are no subclass of Python's, and this floor does not know NumPy.
    is_boolean = type(value).__name__ in ("bool", "bool_")
    if isinstance(value, SupportsIndex) and not is_boolean:
        try:
            number = operator.index(value)
        except TypeError:  # an array of several numbers has the method, and refuses when called
            number = None
    if number is None or (least is not None and number < least):
        shown = value if isinstance(value, int | float | str) else f"a {type(value).__name__}"
        problem = _PROBLEMS.get(least, "at least")
        detail = str(least) if problem == "at least" else None
        raise SizeError(problem, tag=what, value=shown, detail=detail)
    return number
