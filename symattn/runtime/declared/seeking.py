"""Whether a shape is written anywhere in an annotation.

Most annotations have none, and are then somebody else's to check, as they stand.  To know, all that
an annotation is made of is looked at: what unions, aliases and type variables stand for, and the
fields of record classes.
"""

from __future__ import annotations

import collections.abc as abc
from dataclasses import dataclass, field
from typing import Annotated, Any, NewType, TypeVar, cast, get_args, get_origin

from symattn.runtime.declared.aliases import is_alias, value_of
from symattn.runtime.declared.annotations import NotYetDefined, Scope
from symattn.runtime.declared.kinds import is_array_type
from symattn.runtime.declared.plain import unqualified
from symattn.runtime.declared.records import Declared, declared, is_record

_CALLABLE: Any = get_origin(abc.Callable[..., Any])


@dataclass(slots=True)
class Seeker:
    """Looks for shapes in the annotation of one parameter, `where`.

    `anywhere`: record classes of all packages are to be understood, not only the function's own.
    """

    scope: Scope
    where: str
    anywhere: bool
    known: dict[Any, bool] = field(default_factory=dict[Any, bool])

    def shaped(self, annotation: Any) -> bool:
        """Whether a shape is written anywhere in an annotation."""
        annotation = unqualified(annotation)
        if isinstance(annotation, list):  # the arguments of a callable
            return any(map(self.shaped, cast("list[Any]", annotation)))
        if is_jaxtyping(annotation):
            leaves: Any = getattr(annotation, "leaftype", None)
            structured = getattr(annotation, "structure", None) is not None
            return hasattr(annotation, "dim_str") or structured or self.shaped(leaves)
        if get_origin(annotation) is Annotated:
            base = annotation.__origin__
            has_text = any(isinstance(note, str) for note in annotation.__metadata__)
            return (has_text and is_array_type(base)) or self.shaped(base)
        if isinstance(annotation, TypeVar):
            return any(map(self.shaped, annotation.__constraints__ or (annotation.__bound__,)))
        if isinstance(annotation, NewType):
            return self.shaped(annotation.__supertype__)
        origin: Any = get_origin(annotation)
        if not is_alias(annotation) and not is_record(origin or annotation):
            return any(map(self.shaped, get_args(annotation)))
        key = key_of(annotation)
        if key not in self.known:
            self.known[key] = False  # as far as it holds itself
            if is_record(origin or annotation):
                inner = [one.annotation for one in self.fields(annotation)]
            else:
                inner = [value_of(annotation)]
            self.known[key] = any(map(self.shaped, inner))
        return self.known[key]

    def fields(self, annotation: Any) -> tuple[Declared, ...]:
        kind: Any = get_origin(annotation) or annotation
        try:
            resolved = self.scope.of_class(kind, self.where)
        except NotYetDefined as error:
            found = declared(kind, get_args(annotation), error.of_class)
            # In other packages a name may be there for type checkers alone, and no shape be meant.
            home, here = kind.__module__, self.scope.globals.get("__name__")
            near = self.anywhere or home.partition(".")[0] == str(here).partition(".")[0]
            if near or any(self.shaped(one.annotation) for one in found):
                raise
            return found
        return declared(kind, get_args(annotation), resolved)


def is_jaxtyping(annotation: Any) -> bool:
    """Whether this is a class such as jaxtyping makes for an array, or a PyTree of them."""
    if not isinstance(annotation, type):
        return False
    names = ("dim_str", "dtypes", "array_type")
    is_tree = hasattr(annotation, "leaftype") and "jaxtyping" in type(annotation).__module__
    return is_tree or all(hasattr(annotation, name) for name in names)


def holds_arrays(annotation: Any) -> bool:
    """Whether values of this type hold arrays, not counting what callables and classes speak of."""
    origin: Any = get_origin(annotation)
    if origin in (type, _CALLABLE) or is_array_type(origin):
        return False
    return any(is_array_type(one) or holds_arrays(one) for one in get_args(annotation))


def key_of(annotation: Any) -> object:
    """What an annotation is remembered by: itself, or its identity where it has no hash."""
    try:
        hash(annotation)
    except TypeError:
        return id(annotation)
    return annotation
