"""How deeply operations may stand inside one another: what recursion allows, said as an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from symattn.errors import NotSupportedError


@contextmanager
def shallow_enough(what: str) -> Iterator[None]:
    """Turn the end of Python's recursion into an error that says what is too deep.

    >>> with shallow_enough("proving"):
    ...     raise RecursionError
    Traceback (most recent call last):
        ...
    symattn.errors.NotSupportedError: not supported yet: proving with so many operations inside ...
    """
    try:
        yield
    except RecursionError:
        raise NotSupportedError(f"{what} with so many operations inside one another") from None
