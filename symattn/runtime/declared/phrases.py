"""How values and annotations are said in messages: by their type, never by what they hold."""

from __future__ import annotations

import sys
import types
from typing import Any, cast, get_args, get_origin

from symattn.runtime.declared.aliases import is_union
from symattn.runtime.declared.kinds import is_array_type

SHORT = {"numpy": "np"}
"""How people import what they annotate with."""


_AS_LETTERS = ("nd", "np.")
"""How names begin of which the first letter is read by its own name."""


def a(noun: str) -> str:
    """A noun with its article.

    >>> a("int"), a("list"), a("ndarray")
    ('an int', 'a list', 'an ndarray')
    """
    vowel = noun[:1].lower() in tuple("aeio") or noun.startswith(_AS_LETTERS)
    return f"{'an' if vowel else 'a'} {noun}"


_UNSAID = ("builtins", "__main__", "typing")


def class_name(kind: type) -> str:
    """A class by the name that people import.

    >>> class_name(int), class_name(types.SimpleNamespace)
    ('int', 'types.SimpleNamespace')
    """
    module = kind.__module__
    # PyTorch's `torch.nn.parameter.Parameter`, `jaxlib._jax.ArrayImpl`: the package says enough.
    where = module.partition(".")[0]
    last = kind.__qualname__.rpartition(".")[2]
    if where == "jaxlib" and last in ("Array", "ArrayImpl"):
        return "jax.Array"
    package = sys.modules.get(where)
    if package is not None and vars(package).get(last) is kind:  # however it is called inside
        return last if where in _UNSAID else f"{where}.{last}"
    if where in _UNSAID or "<locals>" in kind.__qualname__:
        return kind.__qualname__.rpartition("<locals>.")[2]
    return f"{where}.{kind.__qualname__}"


def said(value: Any) -> str:
    """What a value is.

    >>> said(None), said(2.5), said([1]), said(int), said(len)
    ('None', 'a Python float', 'a list', 'the class int', 'a function')
    """
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {class_name(value)}"
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        return "a function"
    kind: type = type(cast(object, value))
    if kind in (bool, int, float, complex):
        return f"a Python {kind.__name__}"
    return a(class_name(kind))


def said_as_size(value: Any) -> str:
    """What stands where a size should: an integer may be said, nothing else that a value holds.

    >>> said_as_size(-3), said_as_size("secret")
    ('-3', 'a str')
    """
    return str(value) if type(value) is int and abs(value) < 10**18 else said(value)


def annotation_text(annotation: Any, shape: str = "") -> str:
    """An annotation as it is written in code, its arrays with a shape if one is given.

    >>> annotation_text(dict[str, int | None]), annotation_text(tuple[int, ...])
    ('dict[str, int | None]', 'tuple[int, ...]')
    >>> annotation_text(list[Any], "d n")
    'list[Annotated[Any, "d n"]]'
    """
    origin: Any = get_origin(annotation)
    if shape and not is_union(annotation) and is_array_type(annotation):
        return f'Annotated[{annotation_text(annotation)}, "{shape}"]'
    if annotation is None or annotation is type(None):
        return "None"
    if annotation is Ellipsis:
        return "..."
    if isinstance(annotation, list):
        parts = cast("list[Any]", annotation)
        return f"[{', '.join(annotation_text(part, shape) for part in parts)}]"
    if hasattr(annotation, "__metadata__"):
        notes = ", ".join(map(repr, annotation.__metadata__))
        return f"Annotated[{annotation_text(annotation.__origin__, shape)}, {notes}]"
    arguments = [annotation_text(part, shape) for part in get_args(annotation)]
    if is_union(annotation):
        return " | ".join(arguments)
    if isinstance(origin, type) and arguments:
        return f"{_short(origin)}[{', '.join(arguments)}]"
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return _short(annotation)
    if hasattr(annotation, "shape"):  # an array, whose text is its values
        return said(annotation)
    return str(annotation).replace("typing.", "")


def _short(kind: type) -> str:
    if hasattr(kind, "dim_str"):  # jaxtyping's: its name says all
        return kind.__name__
    name = class_name(kind).removeprefix("collections.")
    package, dot, rest = name.partition(".")
    return f"{SHORT.get(package, package)}{dot}{rest}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number of things.

    >>> counted(1, "axis", "axes"), counted(3, "axis", "axes"), counted(0, "axis", "axes")
    ('1 axis', '3 axes', 'no axes')
    """
    return f"{number or 'no'} {noun if number == 1 else plural or noun + 's'}"
