"""The decorator: functions, methods, classes, properties, generators … become checked ones.

What is decorated keeps its kind, its name, its signature and its place in the module, so that
everything that looks at functions (`inspect`, `pickle`, `functools`, a framework) sees what it saw.
Where checks are off when a function is decorated, it is left as it is.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType, FunctionType
from typing import Any, TypeVar, cast, overload

from symattn.errors import SpecError
from symattn.runtime.building import Asked, Building, Deferred
from symattn.runtime.checked import Checked
from symattn.runtime.generated.emit import MARK
from symattn.runtime.switch import STATE

F = TypeVar("F", bound=Callable[..., Any])


@overload
def shapecheck(target: F, /) -> F: ...
@overload
def shapecheck(spec: str = "", /) -> Callable[[F], F]: ...
def shapecheck(target: Any = "", /) -> Any:
    """Check the shapes of all arrays in every call: of the arguments, and of the result.

    >>> from typing import Annotated
    >>> import numpy as np
    >>> from symattn import shapecheck
    >>> @shapecheck
    ... def scores(
    ...     Q: Annotated[np.ndarray, "d_k n"], K: Annotated[np.ndarray, "d_k m"]
    ... ) -> Annotated[np.ndarray, "m n"]:
    ...     return K.T @ Q
    >>> scores(np.ones((4, 5)), np.ones((4, 7))).shape
    (7, 5)
    >>> scores(np.ones((4, 5)), np.ones((7, 4)))
    Traceback (most recent call last):
        ...
    symattn.errors.ShapeCheckError: ...

    Code without annotations is given a spec; leading axes of any number are `...`:

    >>> @shapecheck("Q: ... d_k n, K: ... d_k m -> ... m n")
    ... def scores(Q, K):
    ...     return np.swapaxes(K, -1, -2) @ Q

    A size is a tag, or is made of tags: `h*d_k`, `2*n`, `n+1`, `d_model//h`.  All equations of a
    call, those of the result and of integer parameters (`h: int`) among them, are solved together,
    in any order.  On a class, every method is checked, and the sizes that `__init__` binds hold in
    all of them.

    Raises, when a function is decorated, `SpecError` for annotations that cannot be checked, and
    for sizes that do not follow from the others.  A checked function raises `ShapeCheckError` for
    sizes that do not fit, and `TypeCheckError` for what is not of its declared type.
    """
    if isinstance(target, str):
        return partial(_with_spec, target)
    caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    return _decorated(target, spec="", caller=caller, asked="function")


def _with_spec(spec: str, target: Any, /) -> Any:
    caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    return _decorated(target, spec=spec, caller=caller, asked="function")


def check_if_declared(target: Any) -> Any:
    """Decorate what declares shapes, and leave alone what does not: for whole packages."""
    caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    return _decorated(target, spec="", caller=caller, asked="package")


def _decorated(
    target: Any, *, spec: str, caller: FrameType | None, asked: Asked, of_instance: bool = True
) -> Any:
    """What takes the place of something that is decorated."""
    if not STATE.is_on():
        return target
    again = partial(_decorated, spec=spec, caller=caller, asked=asked)
    if isinstance(target, type):
        return _checked_class(target, spec, caller, asked)
    for kind, rewrap in _REWRAPPED.items():
        if isinstance(target, kind):
            return rewrap(target, again)
    if not callable(target):
        raise SpecError(type(target).__name__, "only functions and classes are checked")
    earlier = getattr(target, MARK, None)
    if isinstance(earlier, Checked | Deferred) and earlier.wrapper is target:
        if not spec:
            return target
        target = cast(Any, target).__wrapped__
    return Building(target, spec, caller, asked, of_instance=of_instance).wrapper()


def _property(target: property, again: Callable[[Any], Any]) -> property:
    made = target if target.fget is None else target.getter(again(target.fget))
    made = made if target.fset is None else made.setter(again(target.fset))
    return made if target.fdel is None else made.deleter(again(target.fdel))


def _cached(target: functools.cached_property[Any], again: Callable[[Any], Any]) -> Any:
    cached = type(target)(again(target.func))
    if target.attrname is not None:
        cached.__set_name__(object, target.attrname)
    return cached


def _method(target: Any, again: Callable[..., Any]) -> Any:
    return type(target)(again(target.__func__, of_instance=False))


def _partial(target: Any, again: Callable[[Any], Any]) -> Any:
    return type(target)(again(target.func), *target.args, **target.keywords)


def _dispatching(target: functools.singledispatchmethod[Any], again: Callable[[Any], Any]) -> Any:
    made = functools.singledispatchmethod(again(target.func))
    for kind, implementation in target.dispatcher.registry.items():
        if kind is not object:
            made.register(kind, again(implementation))
    return made


_REWRAPPED: Mapping[type, Callable[[Any, Callable[[Any], Any]], Any]] = {
    staticmethod: _method,
    classmethod: _method,
    property: _property,
    functools.cached_property: _cached,
    functools.partial: _partial,
    functools.partialmethod: _partial,
    functools.singledispatchmethod: _dispatching,
}


def _may_be_checked(member: Any) -> bool:
    """Whether this is a function, or holds one: made by `property`, `lru_cache`, a `jit` …"""
    wraps = callable(member) and hasattr(member, "__wrapped__")
    return wraps or isinstance(member, (FunctionType, *_REWRAPPED))


def _checked_class(cls: type, spec: str, caller: FrameType | None, asked: Asked) -> type:
    """A class, each method of which is checked, and the classes in it."""
    if spec:
        raise SpecError(
            cls.__name__, "a spec names the parameters of one function; a class has many"
        )
    members = {name: member for name, member in vars(cls).items() if _may_be_checked(member)}
    extra = {cls.__name__: cls}
    inside: Asked = "package" if asked == "package" else "class"
    for name, member in vars(cls).items():
        if isinstance(member, type) and member.__qualname__ == f"{cls.__qualname__}.{name}":
            _checked_class(member, "", caller, inside)
    checked = {
        name: _in_class(member, caller, extra, inside)
        for name, member in sorted(members.items(), key=lambda item: item[0] != "__init__")
    }
    changed = {name: new for name, new in checked.items() if new is not members[name]}
    if asked == "function" and not any(map(_declares_shapes, checked.values())):
        raise SpecError(
            cls.__name__,
            "no method declares a shape",
            "a dataclass is checked where it is constructed: put @shapecheck above @dataclass",
        )
    for name, new in changed.items():
        setattr(cls, name, new)
    constructors = (getattr(vars(base).get("__init__"), MARK, None) for base in cls.__mro__)
    bound = {
        tag
        for constructor in constructors
        if isinstance(constructor, Checked)
        for tag in (*constructor.declared.tags, *constructor.declared.integers)
    }
    for new in changed.values():
        method = getattr(new, MARK, None)
        if isinstance(method, Checked):
            method.require(bound)
    constructor = getattr(changed.get("__init__"), MARK, None)
    if isinstance(constructor, Checked):
        methods = (new for name, new in changed.items() if name != "__init__")
        constructor.sizes_matter = any(map(_declares_shapes, methods))
    return cls


def _declares_shapes(member: Any) -> bool:
    """Whether a member, or a function in it, is checked for more than to keep its integers."""
    parts: list[Any] = [
        getattr(member, name, None) for name in ("__func__", "func", "fget", "fset", "fdel")
    ]
    if isinstance(member, functools.singledispatchmethod):
        parts += cast(Any, member).dispatcher.registry.values()
    parts.append(member)
    marks = (getattr(part, MARK, None) for part in parts)
    return any(m is not None and (m.declared.tags or m.declared.deferred) for m in marks)


def _in_class(
    member: Any,
    caller: FrameType | None,
    extra: Mapping[str, object],
    asked: Asked,
    of_instance: bool = True,
) -> Any:
    changed: list[Any] = []

    def again(inner: Any, of_instance: bool = True) -> Any:
        new = _in_class(inner, caller, extra, asked, of_instance)
        changed.extend([new] if new is not inner else [])
        return new

    for kind, rewrap in _REWRAPPED.items():
        if isinstance(member, kind):
            new = rewrap(member, again)
            return new if changed else member
    if getattr(member, MARK, None) is not None:
        return member
    return Building(member, "", caller, asked, extra, of_instance).wrapper()
