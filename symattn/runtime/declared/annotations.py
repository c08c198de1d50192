"""From what stands in a signature to annotations: names are resolved, wherever they were written.

Under `from __future__ import annotations`, and in quotes, an annotation is text that Python itself
means to be run as code later; `typing.get_type_hints` does so here, one annotation at a time.  What
it does not know are the names that are local to an enclosing function or class body.  These are on
the stack while the function is decorated, so a `Scope` looks them up there and keeps them; frames
themselves are not kept.

The invariant: an annotation is resolved, or an error is raised; none is dropped.  A name that is
not there yet (a class in its own body, a circular import) gives `NotYetDefined`, and the caller may
ask again later; so does a name imported for type checkers only, which never comes.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, Union, cast, get_args, get_origin, get_type_hints

from symattn.errors.checks import SpecError
from symattn.runtime.declared.aliases import is_union
from symattn.runtime.declared.kinds import raw_annotations

AnyFunction = Callable[..., Any]

WRITE = 'write a shape as Annotated[np.ndarray, "d_k n"]'

_LOCALS = ".<locals>"


class NotYetDefined(NameError):
    """A name in an annotation that is not defined so far; it never leaves the decorator.

    `resolved` holds the annotations that could be resolved, `of_class` those of a class's fields.
    """

    def __init__(
        self,
        name: str,
        parameter: str,
        resolved: Mapping[str, object] | None = None,
        of_class: Mapping[str, tuple[type, object]] | None = None,
    ) -> None:
        self.parameter = parameter
        self.resolved = dict(resolved or {})
        self.of_class = dict(of_class or {})
        super().__init__(
            f"{parameter} is annotated with a name that is not defined: {name}", name=name
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """A function, and the names that its annotations may use where it stands.

    >>> def attend(K: "list[int]") -> None: ...
    >>> Scope.of(attend, None).annotations()
    {'K': list[int], 'return': <class 'NoneType'>}
    """

    function: AnyFunction
    name: str
    """The function as messages name it."""
    enclosing: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, dict[str, object]], repr=False
    )
    """The names local to each function or class body around it, by the qualified name of that."""

    @staticmethod
    def of(function: object, frame: types.FrameType | None, name: str | None = None) -> Scope:
        """The scope of a function that is being decorated, where `frame` calls the decorator."""
        inner = innermost(function)
        return Scope(inner, name or inner.__name__, _enclosing(inner, frame))

    @property
    def globals(self) -> dict[str, object]:
        """The names of the function's module."""
        return getattr(self.function, "__globals__", {})

    def annotations(self, extra: Mapping[str, object] | None = None) -> dict[str, object]:
        """Every annotation of the function, "return" too, resolved.

        `extra` are names known by now, such as that of the class that a method belongs to.
        Raises `NotYetDefined`, or `SpecError` for what is no annotation.
        """
        names = {**self._names(), **(extra or {})}
        resolved: dict[str, object] = {}
        missing: NotYetDefined | None = None
        for parameter, annotation in _written(self.function).items():
            try:
                value = self._resolved(annotation, self.globals, names, parameter)
                resolved[parameter] = self._without_self(value, parameter, names)
            except NotYetDefined as error:
                missing = missing or error
        if missing is not None:
            raise NotYetDefined(str(missing.name), missing.parameter, resolved) from None
        return resolved

    def of_class(self, kind: type, parameter: str) -> dict[str, tuple[type, object]]:
        """For each annotated name of a class, inherited ones too, where it is from, and its type.

        `parameter` is what holds the class.  Raises as `annotations` does, after all were tried.
        """
        resolved: dict[str, tuple[type, object]] = {}
        missing: NotYetDefined | None = None
        for base in reversed(kind.__mro__):
            for name, annotation in raw_annotations(base).items():
                try:
                    value = self._resolved(
                        annotation, self._module_of(base), self._names_in(base), parameter
                    )
                    resolved[name] = (base, with_self(value, kind))
                except NotYetDefined as error:
                    missing = missing or error
        if missing is not None:
            raise NotYetDefined(str(missing.name), parameter, of_class=resolved) from None
        return resolved

    # -- names

    def _names(self) -> dict[str, object]:
        """What Python would find where the function is written, globals apart: inner names win."""
        function = self.function
        qualified = function.__qualname__
        body = qualified.rpartition(".")[0]
        names: dict[str, object] = {}
        for scope in _prefixes(qualified):
            is_function = qualified.startswith(scope + _LOCALS)
            if is_function or scope == body:  # the body of an outer class is not seen from inside
                names.update(self.enclosing.get(scope, {}))
        code: Any = getattr(function, "__code__", None)
        cells: Any = getattr(function, "__closure__", None) or ()
        for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
            try:
                names[name] = cell.cell_contents
            except ValueError:  # it is not bound yet
                names.pop(name, None)
        inside_class = self.enclosing.get(body, {})
        for owner in (inside_class.get("__type_params__"), getattr(function, _PARAMS, ())):
            for parameter in cast("tuple[Any, ...]", owner or ()):
                names[parameter.__name__] = parameter
        return names

    def _module_of(self, kind: type) -> dict[str, object]:
        """The names of the module that a class is written in."""
        if kind.__module__ == self.globals.get("__name__"):
            return self.globals
        module = sys.modules.get(kind.__module__)
        return vars(module) if module else {}

    def _names_in(self, kind: type) -> dict[str, object]:
        """What the body of a class sees, globals apart."""
        names: dict[str, object] = {}
        if kind.__module__ == self.globals.get("__name__"):
            for scope in _prefixes(kind.__qualname__):
                if kind.__qualname__.startswith(scope + _LOCALS):
                    names.update(self.enclosing.get(scope, {}))
        names |= {parameter.__name__: parameter for parameter in getattr(kind, _PARAMS, ())}
        # By the time that it is asked about, a class has its name.
        return names | {kind.__name__: kind} | dict(vars(kind))

    # -- one annotation

    def _resolved(
        self, annotation: Any, module: dict[str, Any], names: Mapping[str, object], parameter: str
    ) -> object:
        # A class, so that ClassVar and Final are let through; its name is in no message.
        holder = type("_", (), {"__annotations__": {"it": annotation}})
        try:
            return get_type_hints(holder, module, dict(names), include_extras=True)["it"]
        except NameError as error:
            raise NotYetDefined(error.name or str(error), parameter) from None
        except AttributeError as error:  # in a module that is still being imported
            raise NotYetDefined(str(error.name or error), parameter) from None
        except SyntaxError:
            shown = repr(annotation) if isinstance(annotation, str) else "text"
            problem = f"{parameter} is annotated with {shown}, which is no type"
            raise SpecError(self.name, problem, WRITE) from None
        except SpecError:
            raise
        except Exception as error:  # whatever the code of an annotation does
            problem = f"{parameter} has an annotation that cannot be resolved: {error}"
            raise SpecError(self.name, problem, WRITE) from error

    def _without_self(self, annotation: object, parameter: str, names: Mapping[str, object]) -> Any:
        if not mentions_self(annotation):
            return annotation
        path = self.function.__qualname__.rpartition("<locals>.")[2].split(".")[:-1]
        if not path:
            problem = f"{parameter} is annotated with Self, but the function is in no class"
            raise SpecError(self.name, problem)
        owner: Any = names.get(path[0], self.globals.get(path[0]))
        for name in path[1:]:
            owner = getattr(owner, name, None)
        if not isinstance(owner, type) or owner.__qualname__.split(".")[-len(path) :] != path:
            raise NotYetDefined(".".join(path), parameter)
        return with_self(annotation, owner)


_PARAMS = "__type_params__"


# -- from a callable to the function that was written


def innermost(function: object) -> AnyFunction:
    """The function that a callable calls in the end, whose signature it has.

    >>> innermost(functools.partial(len, "x")).__name__
    'len'
    """
    seen: set[int] = set()
    inner: Any = function
    while id(inner) not in seen:
        seen.add(id(inner))
        if isinstance(inner, functools.partial | functools.partialmethod):
            inner = cast(Any, inner).func
        elif isinstance(inner, staticmethod | classmethod | types.MethodType):
            inner = cast(Any, inner).__func__
        elif hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
    if not hasattr(inner, "__qualname__"):  # an object that can be called
        return cast(AnyFunction, getattr(type(cast(object, inner)), "__call__", inner))  # noqa: B004
    return inner


def _written(function: AnyFunction) -> dict[str, Any]:
    signature: Any = getattr(function, "__signature__", None)
    if not isinstance(signature, inspect.Signature):
        return raw_annotations(function)
    empty = inspect.Parameter.empty
    found = {name: p.annotation for name, p in signature.parameters.items()}
    found["return"] = signature.return_annotation
    return {name: annotation for name, annotation in found.items() if annotation is not empty}


# -- names on the stack


def _prefixes(qualified: str) -> list[str]:
    """The qualified names of the functions and classes around one, outer ones first.

    >>> _prefixes("f.<locals>.A.g")
    ['f', 'f.<locals>.A']
    """
    parts = qualified.split(".")
    around = [".".join(parts[:i]) for i in range(1, len(parts))]
    return [one for one in around if not one.endswith(_LOCALS)]


def _enclosing(
    function: AnyFunction, frame: types.FrameType | None
) -> dict[str, dict[str, object]]:
    """The locals of each function or class body around this one that is running now."""
    wanted = set(_prefixes(getattr(function, "__qualname__", "")))
    found: dict[str, dict[str, object]] = {}
    module = getattr(function, "__globals__", None)
    while frame is not None and wanted:
        scope = frame.f_code.co_qualname
        if scope in wanted and frame.f_globals is module:
            wanted.discard(scope)
            found[scope] = {
                name: value
                for name, value in frame.f_locals.items()
                if isinstance(value, type) or not hasattr(type(cast(object, value)), "shape")
            }  # arrays are not annotations, and would be kept alive
        frame = frame.f_back
    return found


# -- Self


def mentions_self(annotation: Any) -> bool:
    """Whether `Self` stands anywhere in an annotation.

    >>> mentions_self(list[Self] | None), mentions_self(list[int])
    (True, False)
    """
    if annotation is Self:
        return True
    if isinstance(annotation, list):
        return any(map(mentions_self, cast("list[Any]", annotation)))
    return any(mentions_self(part) for part in get_args(annotation))


def with_self(annotation: Any, owner: type) -> Any:
    """An annotation with a class in the place of `Self`.

    >>> with_self(dict[str, Self], int)
    dict[str, int]
    """
    if annotation is Self:
        return owner
    if not mentions_self(annotation):
        return annotation
    if isinstance(annotation, list):
        return [with_self(part, owner) for part in cast("list[Any]", annotation)]
    parts = tuple(with_self(part, owner) for part in get_args(annotation))
    if is_union(annotation):
        return cast(Any, Union)[parts]
    if hasattr(annotation, "__metadata__"):
        return annotation.copy_with(parts[:1])
    origin: Any = get_origin(annotation)
    return origin[parts[0] if len(parts) == 1 else parts]
