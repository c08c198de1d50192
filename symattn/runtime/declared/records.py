"""Classes that are records of named fields: dataclasses, named tuples, `TypedDict`s.

What a field is declared to be may use type variables of its class; they are replaced by what the
annotation, or a class that inherits, puts in their place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, Required, cast, get_args, get_origin, is_typeddict

from symattn.runtime.declared.aliases import Arguments, substituted
from symattn.runtime.declared.annotations import Scope


@dataclass(frozen=True, slots=True)
class Declared:
    """A field as its class declares it."""

    name: str
    annotation: Any
    required: bool = True


def is_record(kind: Any) -> bool:
    """Whether this is a class of records.

    >>> is_record(Declared), is_record(int), is_record(Declared("K", int))
    (True, False, False)
    """
    if not isinstance(kind, type) or get_origin(kind) is not None:
        return False
    return dataclasses.is_dataclass(kind) or is_typed_dict(kind) or _is_named_tuple(kind)


def is_typed_dict(kind: Any) -> bool:
    """Whether this is a `TypedDict`, whose instances are dictionaries."""
    # typing_extensions has a class of its own.
    return is_typeddict(kind) or type(kind).__name__ == "_TypedDictMeta"


def _is_named_tuple(kind: Any) -> bool:
    return issubclass(kind, tuple) and hasattr(cast(Any, kind), "_fields")


def fields_of(
    kind: type, arguments: tuple[Any, ...], scope: Scope, parameter: str
) -> tuple[Declared, ...]:
    """The fields of a record class, each with its annotation resolved.

    Raises `NotYetDefined` and `SpecError` as `Scope.of_class` does.
    """
    return declared(kind, arguments, scope.of_class(kind, parameter))


def declared(
    kind: type, arguments: tuple[Any, ...], resolved: Mapping[str, tuple[type, object]]
) -> tuple[Declared, ...]:
    """The fields among the annotated names of a class."""
    stands = _arguments(kind, arguments)
    if dataclasses.is_dataclass(kind):  # neither ClassVar nor InitVar are in an instance
        names = [one.name for one in dataclasses.fields(kind)]
    elif _is_named_tuple(kind):
        names = list(cast(Any, kind)._fields)
    else:
        names = list(resolved)
    found: list[Declared] = []
    for name in names:
        if name in resolved:
            base, annotation = resolved[name]
            annotation = substituted(annotation, stands.get(base, {}))
            found.append(Declared(name, annotation, _is_required(kind, name, annotation)))
    return tuple(found)


def _is_required(kind: Any, name: str, annotation: Any) -> bool:
    if not is_typed_dict(kind):
        return True
    # From the annotation itself: where it was text, the class could not see it when it was made.
    while (origin := get_origin(annotation)) is not None:
        if _name(origin) in (_name(Required), _name(NotRequired)):
            return _name(origin) == _name(Required)
        if _name(origin) not in ("ReadOnly", "Annotated"):
            break
        annotation = get_args(annotation)[0]
    return name in kind.__required_keys__


def _name(form: Any) -> str:
    return getattr(form, "_name", None) or getattr(form, "__name__", "")


def _arguments(kind: type, arguments: tuple[Any, ...]) -> dict[type, Arguments]:
    """For a class and each that it inherits from: what stands for its type variables."""
    found: dict[type, Arguments] = {}
    waiting: list[tuple[type, tuple[Any, ...]]] = [(kind, arguments)]
    while waiting:
        base, given = waiting.pop()
        parameters: tuple[Any, ...] = getattr(base, "__parameters__", ())
        found[base] = dict(zip(parameters, given, strict=False))
        for parent in base.__dict__.get("__orig_bases__", base.__bases__):
            origin: Any = get_origin(parent) or parent
            if isinstance(origin, type) and origin not in found:
                inherited = tuple(substituted(one, found[base]) for one in get_args(parent))
                waiting.append((origin, inherited))
    return found
