"""Annotations without shapes: what Python's `isinstance` decides, and what is left to beartype.

beartype is not asked, nor imported, for a class and for a union of classes.  Whatever it cannot
take is refused when the function is decorated: nothing is left unchecked without a word.
"""

from __future__ import annotations

import warnings
from typing import (
    Annotated,
    Any,
    ForwardRef,
    LiteralString,
    Never,
    NoReturn,
    ParamSpecArgs,
    ParamSpecKwargs,
    Self,
    cast,
    get_args,
    get_origin,
)

from symattn.runtime.declared.aliases import is_union
from symattn.runtime.declared.hints import ANYTHING, AnyHint, PlainHint, bears
from symattn.runtime.declared.phrases import a, annotation_text, class_name
from symattn.runtime.declared.records import is_typed_dict

QUALIFIERS = ("Final", "ClassVar", "Required", "NotRequired", "ReadOnly", "Unpack")
"""What says something of a name, not of its type."""


class _Nothing:
    """What `Never` has instances of: none."""


_FORMS: dict[Any, tuple[type, str]] = {
    None: (type(None), "None"),
    LiteralString: (str, "a str"),
    Never: (_Nothing, "nothing"),
    NoReturn: (_Nothing, "nothing"),
}
_ANYTHING = (Any, object)

_TOWER: dict[type, tuple[type, ...]] = {float: (int,), complex: (float, int)}
"""The numbers that will do where another kind is declared (PEP 484)."""


class NotATypeError(Exception):
    """An annotation that says no type; it never leaves the decorator."""

    def __init__(self, problem: str, fix: str = "") -> None:
        self.problem = problem
        self.fix = fix
        super().__init__(problem)


class NotCheckableError(NotATypeError):
    """A type whose instances cannot be told from others, such as a protocol of static types."""


def unqualified(annotation: Any) -> Any:
    """What `Final[X]`, `ClassVar[X]`, `InitVar[X]`, `NotRequired[X]` say of X, without that.

    >>> from typing import Final
    >>> unqualified(Final[int]), unqualified(Final)
    (<class 'int'>, typing.Any)
    """
    while True:
        if type(annotation).__name__ == "InitVar":
            annotation = annotation.type
        elif form_name(get_origin(annotation)) in QUALIFIERS:
            annotation = get_args(annotation)[0]
        elif form_name(annotation) in QUALIFIERS:
            return Any
        else:
            return annotation


def form_name(form: Any) -> str:
    """The name of a special form such as `Final`, be it of typing or of typing_extensions."""
    is_form = type(form).__module__ in ("typing", "typing_extensions")
    return getattr(form, "_name", None) or "" if is_form and not get_args(form) else ""


def plain(annotation: Any) -> PlainHint | AnyHint:
    """The hint of an annotation that has no shapes in it.

    >>> plain(int | None).label, plain(list[int]).label
    ('an int or None', 'list[int]')

    Raises `NotATypeError`, at the latest when the hint is `validate`d.
    """
    annotation = unqualified(annotation)
    if any(annotation is one for one in _ANYTHING):
        return ANYTHING
    if isinstance(annotation, ParamSpecArgs | ParamSpecKwargs):
        return ANYTHING  # of the caller's own choice
    if isinstance(annotation, str | ForwardRef):
        raise NotATypeError("it is text, which is no type")
    if annotation is Self:
        raise NotATypeError("Self stands where no class is known")
    if get_origin(annotation) is Annotated:
        bare = _validated(annotation)
        if get_origin(bare) is not Annotated:
            return plain(bare)
        annotation = bare
    if form_name(get_origin(annotation)) in ("TypeGuard", "TypeIs"):
        annotation = bool
    if any(annotation is one for one in _FORMS):
        kind, label = _FORMS[annotation]
        return PlainHint(annotation, label, (kind,))
    text = annotation_text(annotation)
    members = get_args(annotation) if is_union(annotation) else (annotation,)
    if all(_is_plain_class(member) for member in members):
        classes = tuple(type(None) if one is None else cast(type, one) for one in members)
        said = " or ".join("None" if c is type(None) else a(class_name(c)) for c in classes)
        tower = (below for one in classes for below in _TOWER.get(one, ()))
        return PlainHint(annotation, said, tuple(dict.fromkeys((*classes, *tower))))
    return PlainHint(annotation, text)


def _validated(annotation: Any) -> Any:
    """An annotation without its documentation: beartype's own validators are kept."""
    validators = [note for note in annotation.__metadata__ if is_validator(note)]
    base = annotation.__origin__
    return Annotated[(base, *validators)] if validators else base


def is_validator(note: object) -> bool:
    """Whether this is one of beartype's, which would be checked."""
    return type(note).__module__.partition(".")[0] == "beartype"


def _is_plain_class(annotation: Any) -> bool:
    """Whether `isinstance` is all that is to be asked."""
    if annotation is None:
        return True
    if not isinstance(annotation, type) or get_origin(annotation) is not None:
        return False
    home = type(annotation).__module__.partition(".")[0]
    is_protocol = getattr(annotation, "_is_protocol", False)
    return home != "jaxtyping" and not is_protocol and not is_typed_dict(annotation)


def validate(hint: PlainHint) -> None:
    """See to it that a value can be checked against a hint at all.

    Raises `NotATypeError`.
    """
    if hint.classes:
        return
    home = type(hint.annotation).__module__.partition(".")[0]
    if home == "jaxtyping" and hasattr(hint.annotation, "dtypes"):
        name = hint.annotation.__name__
        raise NotATypeError("it has no shape", f'write {name}[np.ndarray, "d_k n"]')
    with warnings.catch_warnings():  # that `typing.List` is old is no matter of ours
        warnings.simplefilter("ignore")
        try:
            bears(None, hint.annotation)
        except Exception as error:  # beartype's, and those of the classes that it asks
            reason = str(error).strip().partition("\n")[0].partition(". ")[0]
            reason = reason.removeprefix("Is_bearable() ")
            is_protocol = getattr(get_origin(hint.annotation) or hint.annotation, "_is_protocol", 0)
            kind = NotCheckableError if is_protocol else NotATypeError
            raise kind(f"beartype cannot check it ({reason})") from error
