"""From an annotation, in whichever spelling, to a hint.

Shapes are spelled `Annotated[np.ndarray, "d_k n"]`, `M[d_k, n]` (which is such an `Annotated`), or
as jaxtyping does; or a spec string on the decorator gives the shape, and the annotation at most the
class.  They may stand in unions, tuples, lists, mappings and records.  An annotation with no shape
in it is left, whole, to `plain`.

The invariant: a shape that is written is checked, or refused when the function is decorated.
Nothing is looked through that would be used up by looking (an iterator), or that cannot be seen
from outside (a callable's arguments, what a class of one's own does with its type parameter).
"""

from __future__ import annotations

import collections
import collections.abc as abc
import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NewType, NoReturn, TypeVar, get_args, get_origin

from symattn.errors import SymattnError
from symattn.errors.checks import SpecError, UncheckedWarning
from symattn.runtime.declared.aliases import is_alias, is_union, value_of
from symattn.runtime.declared.annotations import WRITE, Scope
from symattn.runtime.declared.containers import EachHint, Field, MappingHint, RecordHint, TupleHint
from symattn.runtime.declared.hints import (
    ANYTHING,
    ArrayHint,
    Hint,
    PlainHint,
    UnionHint,
    everything_in,
)
from symattn.runtime.declared.kinds import (
    Alternative,
    Kind,
    alternatives,
    is_array_type,
    kind_of_names,
)
from symattn.runtime.declared.phrases import a, annotation_text, class_name
from symattn.runtime.declared.plain import (
    NotATypeError,
    NotCheckableError,
    form_name,
    is_validator,
    plain,
    unqualified,
    validate,
)
from symattn.runtime.declared.records import declared, is_record, is_typed_dict
from symattn.runtime.declared.seeking import Seeker, holds_arrays, is_jaxtyping, key_of
from symattn.tags.spec import ShapeSpec, parse_shape

UNANNOTATED = inspect.Parameter.empty
"""What stands for no annotation."""

_EACH = {
    *(list, set, frozenset, collections.deque),
    *(abc.Sequence, abc.MutableSequence, abc.Set, abc.MutableSet, abc.Collection),
}
_MAPPINGS = {
    *(dict, collections.OrderedDict, collections.defaultdict, collections.ChainMap),
    *(abc.Mapping, abc.MutableMapping),
}
_CALLABLE: Any = get_origin(abc.Callable[..., Any])
_ONCE = {abc.Iterable, abc.Iterator, abc.Generator, abc.Reversible}
_LATER = {abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator, abc.Awaitable, abc.Coroutine}


def hint_of(
    annotation: object,
    spec: ShapeSpec | tuple[ShapeSpec, ...] | None,
    function: str,
    parameter: str,
    scope: Scope | None = None,
) -> Hint:
    """The hint of a parameter, or of the result ("return"), from what is written for it.

    >>> import numpy as np
    >>> hint_of(Annotated[np.ndarray, "d_k n"] | None, None, "attend", "K").label
    'an array "d_k n" or None'

    `spec` is what the decorator's own text says of it (a tuple of shapes, of a result that is a
    tuple), `scope` the function's, for the names that record classes beside it may use.

    Raises `SpecError`; `NotYetDefined` where the field of a record has a name to come.
    """
    outside = scope or Scope(hint_of, function)
    where = "the result" if parameter == "return" else parameter
    seeker = Seeker(outside, where, anywhere=scope is None)
    reader = _Reader(function, where, outside, seeker)
    hint = reader.read(annotation) if spec is None else reader.with_spec(annotation, spec)
    for one in everything_in(hint):
        if isinstance(one, PlainHint):
            try:
                validate(one)
            except NotCheckableError as error:
                if one is not hint:
                    reader.refuse_type(one.annotation, error)
                said = f"{where} is annotated with {one.label}: {error.problem}"
                warnings.warn(UncheckedWarning(f"{function}(): {said}"), stacklevel=2)
                return ANYTHING
            except NotATypeError as error:
                reader.refuse_type(one.annotation, error)
    return hint


@dataclass(slots=True)
class _Reader:
    """Reads one annotation."""

    function: str
    where: str
    scope: Scope
    seeker: Seeker
    records: dict[Any, RecordHint] = field(default_factory=dict[Any, RecordHint])
    open: set[int] = field(default_factory=set[int])

    def shaped(self, annotation: Any) -> bool:
        return self.seeker.shaped(annotation)

    # -- refusals

    def refuse(self, problem: str, fix: str = "") -> NoReturn:
        # `from None`: what led here says the same without the function.
        raise SpecError(self.function, f"{self.where} {problem}", fix) from None

    def refuse_type(self, annotation: Any, error: NotATypeError) -> NoReturn:
        shown = repr(annotation) if isinstance(annotation, str) else annotation_text(annotation)
        fix = error.fix or (WRITE if isinstance(annotation, str) else "")
        self.refuse(f"is annotated with {shown}: {error.problem}", fix)

    def parse(self, text: str) -> ShapeSpec:
        try:
            return parse_shape(text)
        except SymattnError as error:
            self.refuse(f"has a shape that cannot be read: {error}")

    # -- an annotation, and a shape from the decorator

    def with_spec(self, annotation: Any, spec: ShapeSpec | tuple[ShapeSpec, ...]) -> Hint:
        annotation = unqualified(annotation)
        if annotation is UNANNOTATED:
            annotation = Any
        if isinstance(spec, tuple):
            return self.tuple_with_specs(annotation, spec)
        if self.shaped(annotation):
            shown = annotation_text(annotation)
            self.refuse(f'has the shape "{spec.text}" in the spec, and one in {shown}', "keep one")
        bare: Any = annotation
        while get_origin(bare) is Annotated:
            bare = bare.__origin__
        if not is_array_type(bare):
            shown = annotation_text(annotation)
            self.refuse(f'has the shape "{spec.text}" in the spec, but {shown} is no array')
        return self.array(bare, spec)

    def tuple_with_specs(self, annotation: Any, specs: tuple[ShapeSpec, ...]) -> Hint:
        elements: Sequence[Any]
        arguments = get_args(annotation)
        if annotation in (Any, object, tuple):
            elements = [Any] * len(specs)
        elif get_origin(annotation) is tuple and arguments[1:] == (Ellipsis,):
            elements = [arguments[0]] * len(specs)
        elif get_origin(annotation) is tuple and len(arguments) == len(specs):
            elements = arguments
        else:
            shown = annotation_text(annotation)
            self.refuse(f"has {len(specs)} shapes in the spec, but is annotated with {shown}")
        return TupleHint(tuple(map(self.with_spec, elements, specs)))

    # -- any annotation

    def read(self, annotation: Any) -> Hint:
        annotation = unqualified(annotation)
        if annotation is UNANNOTATED:
            return plain(Any)
        if not self.shaped(annotation):
            self.check_documentation(annotation)
            try:
                return plain(annotation)
            except NotATypeError as error:
                self.refuse_type(annotation, error)
        if is_jaxtyping(annotation):
            return self.jaxtyping(annotation)
        if get_origin(annotation) is Annotated:
            return self.annotated(annotation)
        if is_union(annotation):
            return self.union([one for one in get_args(annotation) if not _is_silent(one)])
        if isinstance(annotation, TypeVar):
            return self.union(annotation.__constraints__ or (annotation.__bound__,))
        if isinstance(annotation, NewType):
            return self.read(annotation.__supertype__)
        if is_alias(annotation):
            return self.alias(annotation)
        origin: Any = get_origin(annotation)
        if is_record(origin or annotation):
            return self.record(annotation)
        return self.container(annotation, origin, get_args(annotation))

    def annotated(self, annotation: Any) -> Hint:
        base, notes = annotation.__origin__, annotation.__metadata__
        texts = [note for note in notes if isinstance(note, str)]
        if any(is_validator(note) for note in notes):
            self.refuse("has a shape and a validator of beartype", "check in the body instead")
        if not texts or (not is_array_type(base) and not _has_jaxtyping(base)):
            return self.read(base)  # the text is documentation
        if self.shaped(base) or len(texts) > 1:
            self.refuse(f"has two shapes: {annotation_text(annotation)}", "keep one")
        return self.array(base, self.parse(texts[0]))

    def alias(self, annotation: Any) -> Hint:
        name: Any = get_origin(annotation) or annotation
        if id(name) in self.open:
            self.refuse(f"has shapes in a type that holds itself, {name}", "use a dataclass for it")
        self.open.add(id(name))
        hint = self.read(value_of(annotation))
        self.open.discard(id(name))
        return hint

    # -- arrays

    def array(self, annotation: Any, spec: ShapeSpec, kind: Kind | None = None) -> Hint:
        """An array, or one of several, whose type is written without a shape."""
        found = alternatives(annotation)
        arrays = [one for one in found if one.role == "array"]
        hints: list[Hint] = list(dict.fromkeys(self.arrays(arrays, spec, kind)))
        for one in found:
            if one.role == "other":
                shown = annotation_text(one.annotation)
                fix = f"write {annotation_text(arrays[0].annotation, spec.text)} | {shown}"
                self.refuse(f'has the shape "{spec.text}", but {shown} has none', fix)
            # A number has no axes, so that it is as good as an array without axes.
            if one.role == "none" or (one.role == "number" and spec.fits_rank(0)):
                hints.append(plain(one.annotation))
        return hints[0] if len(hints) == 1 else UnionHint(tuple(hints))

    def arrays(
        self, found: list[Alternative], spec: ShapeSpec, kind: Kind | None
    ) -> list[ArrayHint]:
        for one in found:
            if one.rank is not None and not spec.fits_rank(one.rank):
                self.refuse(
                    f'has the shape "{spec.text}", but {annotation_text(one.annotation)} '
                    f"has another number of axes"
                )
            for base in one.classes:
                if getattr(base, "_is_protocol", False) and not _is_checkable(base):
                    name = annotation_text(base)
                    fix = f"decorate {name} with typing.runtime_checkable"
                    self.refuse(f"is declared as the protocol {name}, which is not checkable", fix)
        free = [one for one in found if one.kind is None]
        hints = [ArrayHint(spec, one.classes, one.kind or kind) for one in found]
        if len(free) < len(found):
            return hints
        if any(not one.classes for one in free):
            return [ArrayHint(spec, (), kind)]
        return [ArrayHint(spec, tuple({c: None for one in free for c in one.classes}), kind)]

    def jaxtyping(self, annotation: Any) -> Hint:
        if not hasattr(annotation, "dim_str"):
            self.refuse(
                f"is annotated with {annotation_text(annotation)}: the leaves of a PyTree are "
                "not looked at",
                "name its structure: list[...], dict[str, ...], a dataclass",
            )
        declared_as: Any = annotation.dtype
        names: Any = annotation.dtypes
        label = declared_as.__name__
        if names != declared_as.dtypes:  # one in another, as in Float[Float32[...], "..."]
            label = ", ".join(map(str, names))
        if not is_array_type(annotation.array_type):
            shown = annotation_text(annotation.array_type)
            self.refuse(f"has a shape, but {shown} is no array")
        kind = kind_of_names(label, names)
        return self.array(annotation.array_type, self.parse(annotation.dim_str), kind)

    # -- what arrays stand in

    def union(self, members: Sequence[Any]) -> Hint:
        parts: list[Hint] = []
        for member in members:
            hint = self.read(member)
            parts.extend(hint.parts if isinstance(hint, UnionHint) else (hint,))
        parts = list(dict.fromkeys(parts))
        for part in parts:
            for one in (one for one in parts if isinstance(one, ArrayHint)):
                if _takes_all(part, one):
                    self.refuse(
                        f'may be an array "{one.spec.text}", or {part.label}, '
                        "which would let every array through"
                    )
        return parts[0] if len(parts) == 1 else UnionHint(tuple(parts))

    def container(self, annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> Hint:
        label = a(annotation_text(origin)) if isinstance(origin, type) else ""
        if any(form_name(get_origin(one)) == "Unpack" for one in arguments):
            self.refuse(f"has shapes in {annotation_text(annotation)}, of any length")
        if origin is tuple and arguments[1:] == (Ellipsis,):
            return EachHint(tuple, self.read(arguments[0]), label)
        if origin is tuple:
            return TupleHint(tuple(self.read(one) for one in arguments))
        if origin in _EACH:
            return EachHint(origin, self.read(arguments[0]), label)
        if origin in _MAPPINGS and not self.shaped(arguments[0]):
            return MappingHint(origin, self.read(arguments[0]), self.read(arguments[1]), label)
        shown = annotation_text(annotation)
        if origin in _ONCE:
            reason, fix = "looking through it would use it up", "a list or a tuple can be checked"
        elif origin in _LATER:
            reason, fix = "its arrays are not there yet", "check where they are made"
        elif origin is _CALLABLE:
            reason, fix = "arrays are seen when it is called", "decorate what is passed"
        else:
            reason, fix = "it cannot be looked through", "make it a dataclass, or use a list"
        self.refuse(f"has shapes in {shown}: {reason}", fix)

    def record(self, annotation: Any) -> Hint:
        kind: Any = get_origin(annotation) or annotation
        key = key_of(annotation)
        if key not in self.records:
            hint = RecordHint(kind, a(class_name(kind)), is_typed_dict(kind))
            self.records[key] = hint
            resolved = self.scope.of_class(kind, self.where)
            hint.fields = tuple(
                Field(one.name, self.read(one.annotation), one.required)
                for one in declared(kind, get_args(annotation), resolved)
            )
        return self.records[key]

    def check_documentation(self, annotation: Any) -> None:
        """Refuse a shape that is written on a list of arrays: it is each array that has it."""
        if get_origin(annotation) is Annotated:
            base = annotation.__origin__
            texts = [note for note in annotation.__metadata__ if isinstance(note, str)]
            if texts and holds_arrays(base):
                shown = annotation_text(base, texts[0])
                self.refuse(
                    f'has the text "{texts[0]}" on {annotation_text(base)}, which is no array',
                    f"write {shown}",
                )
            self.check_documentation(base)
        for part in get_args(annotation):
            if get_origin(part) is not None:
                self.check_documentation(part)


def _has_jaxtyping(annotation: Any) -> bool:
    return any(is_jaxtyping(one.annotation) for one in alternatives(annotation))


def _is_silent(annotation: Any) -> bool:
    """Whether this is a shape that jaxtyping gives to what only `ArrayLike` speaks of."""
    if not hasattr(annotation, "dim_str"):
        return False
    return all(one.role == "silent" for one in alternatives(annotation.array_type))


def _is_checkable(protocol: Any) -> bool:
    return getattr(protocol, "_is_runtime_protocol", False)


def _takes_all(part: Hint, array: ArrayHint) -> bool:
    """Whether one type of a union lets everything through that another has a shape for."""
    if part.has_shapes:
        return False
    annotation: Any = part.annotation if isinstance(part, PlainHint) else Any
    for one in alternatives(annotation):
        if one.role == "array":
            pairs = ((mine, theirs) for mine in one.classes for theirs in array.classes)
            nested = any(issubclass(m, t) or issubclass(t, m) for m, t in pairs)
            if nested or not one.classes or not array.classes:
                return True
    return False
