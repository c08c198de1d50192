"""What can be called: its parameters, how it runs, and what else it offers."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

from symattn.errors import SpecError

if sys.version_info >= (3, 14):
    import annotationlib


def parameters_of(function: Callable[..., Any], name: str) -> tuple[inspect.Parameter, ...]:
    """Its parameters; `SpecError` where Python cannot tell them."""
    try:
        if sys.version_info >= (3, 14):
            lazily = annotationlib.Format.FORWARDREF
            signature = inspect.signature(function, annotation_format=lazily)
        else:
            signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise SpecError(name, f"its parameters cannot be told: {error}") from None
    return tuple(signature.parameters.values())


def kind_of(function: Callable[..., Any]) -> str:
    """How it runs: "plain", "coroutine", "generator" or "asynchronous generator"."""
    if not isinstance(function, FunctionType | functools.partial | MethodType):
        function = getattr(type(function), "__call__", function)  # noqa: B004
    for kind, test in _KINDS.items():
        if test(function):
            return kind
    return "plain"


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "asynchronous generator": inspect.isasyncgenfunction,
    "coroutine": inspect.iscoroutinefunction,
    "generator": inspect.isgeneratorfunction,
}


def forward(callable_: Any, made: FunctionType) -> None:
    """Let what wraps an object that can be called have its methods: `cache_clear`, `lower`, …"""
    if isinstance(callable_, FunctionType):
        return
    for name in dir(callable_):
        if not name.startswith("_") and not hasattr(made, name):
            setattr(made, name, getattr(callable_, name, None))
