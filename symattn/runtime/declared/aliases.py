"""What stands for another type: unions, aliases of `type X = …`, type variables put in place."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin

Arguments = Mapping[Any, Any]
"""What stands for each type variable."""


def is_union(annotation: Any) -> bool:
    """Whether this is `X | Y`, `Union` or `Optional`."""
    return get_origin(annotation) in (Union, types.UnionType)


def is_alias(annotation: Any) -> bool:
    """Whether this is what `type X = …` makes (of typing_extensions too), or `X[…]` of it."""
    return type(get_origin(annotation) or annotation).__name__ == "TypeAliasType"


def value_of(alias: Any) -> Any:
    """What an alias stands for, its type parameters replaced."""
    name: Any = get_origin(alias) or alias
    arguments = dict(zip(name.__type_params__, get_args(alias), strict=False))
    return substituted(name.__value__, arguments)


def substituted(annotation: Any, arguments: Arguments) -> Any:
    """An annotation with its type variables replaced.

    >>> T = TypeVar("T")
    >>> substituted(list[T], {T: int})
    list[int]
    """
    if isinstance(annotation, TypeVar):
        return arguments.get(annotation, annotation)
    parameters: Any = getattr(annotation, "__parameters__", ())
    if not arguments or not parameters or isinstance(annotation, type):
        return annotation
    return annotation[tuple(arguments.get(one, one) for one in parameters)]
