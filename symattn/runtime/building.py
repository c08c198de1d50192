"""Building a checked function: from its annotations and spec to its source, once."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import sys
import threading
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, FunctionType
from typing import Any, Literal, TypeAlias, get_args, get_origin

from symattn.errors import SizeSyntaxError, SpecError, UncheckedWarning
from symattn.runtime.callables import forward, kind_of, parameters_of
from symattn.runtime.checked import Checked, Sizes
from symattn.runtime.declared.annotations import NotYetDefined, Scope
from symattn.runtime.declared.containers import EachHint, MappingHint
from symattn.runtime.declared.defaults import DefaultHint, LaterHint
from symattn.runtime.declared.hints import (
    ANYTHING,
    AnyHint,
    Hint,
    PlainHint,
)
from symattn.runtime.declared.questions import integer_fields, is_integer, sizes_in, takes
from symattn.runtime.declared.reading import UNANNOTATED, hint_of
from symattn.runtime.generated.compiled import compiled
from symattn.runtime.generated.emit import MARK, Declared, Source, emit
from symattn.tags import nearest, undetermined
from symattn.tags.spec import SignatureSpec, is_reference, parse_signature, reference_path

if sys.version_info >= (3, 14):
    pass

Asked: TypeAlias = Literal["function", "class", "package"]

_GIVES = (
    collections.abc.Generator,
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
)
_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Building:
    """One function that is being decorated.

    ``asked`` says who wants it checked: a decorator on this "function", which has to declare
    something, on its "class", or nobody but whoever imports its "package"; of the latter two, what
    declares no shape is left as it is, and what cannot be read in a package is only warned of.
    ``extra`` are names for its annotations that stand nowhere yet, such as that of its class;
    ``of_instance`` is false of what is a static or class method.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        spec: str,
        caller: FrameType | None,
        asked: Asked,
        extra: Mapping[str, object] | None = None,
        of_instance: bool = True,
    ) -> None:
        self.function = function
        self.qualname = getattr(function, "__qualname__", type(function).__name__)
        self.name = self.qualname.rpartition("<locals>.")[2]
        self.asked: Asked = asked
        self.extra = dict(extra or {})
        self.of_instance = of_instance
        self.parameters = parameters_of(function, self.name)
        self.kind = kind_of(function)
        self.spec = self.read(spec) if spec else SignatureSpec({}, None)
        self.scope = Scope.of(function, caller)

    # -- the function that takes its place

    def wrapper(self) -> Any:
        """The checked function, or the function itself where nothing is to be checked."""
        try:
            return self.checking()
        except SpecError as error:
            if self.asked != "package":
                raise
            warnings.warn(UncheckedWarning(f"left unchecked: {error}"), stacklevel=4)
            return self.function

    def checking(self) -> Any:
        """The checked function."""
        try:
            checked = self.checked(self.scope.annotations(self.extra))
        except NotYetDefined:
            deferred = Deferred(self)
            return self.dressed(deferred, emit(deferred.declared, self.function, deferred))
        if checked is None:
            return self.function
        return self.dressed(checked, emit(checked.declared, self.function, checked))

    def dressed(self, checked: Checked | Deferred, source: Source) -> FunctionType:
        """The function of a source, with all that the unchecked one shows."""
        made = self.run(source)
        source.objects.update({MARK: checked, "__tracebackhide__": True})
        checked.source = source
        checked.wrapper = made
        defaults = {
            p.name: p.default for p in self.parameters if p.default is not inspect.Parameter.empty
        }
        by_name = {
            p.name: defaults.pop(p.name)
            for p in self.parameters
            if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name in defaults
        }
        functools.update_wrapper(made, self.function)
        forward(self.function, made)
        made.__defaults__ = tuple(defaults.values()) or None
        made.__kwdefaults__ = by_name or None
        setattr(made, MARK, checked)
        code = getattr(self.function, "__code__", None)
        if code is not None and code.co_flags & inspect.CO_ITERABLE_COROUTINE:
            made = types.coroutine(made)
        return made

    def run(self, source: Source) -> FunctionType:
        """The function of a source, as tracebacks name it."""
        module = getattr(self.function, "__module__", None)
        return compiled(source, f"<shapecheck of {module}.{self.qualname}>")

    # -- what it declares

    def read(self, spec: str) -> SignatureSpec:
        """The spec of the decorator, which has to name parameters of this function."""
        try:
            read = parse_signature(spec)
        except SizeSyntaxError as error:
            raise SpecError(self.name, str(error)) from None
        names = [parameter.name for parameter in self.parameters]
        for name in read.parameters:
            if name not in names:
                close = nearest(name, names)
                meant = f"did you mean {' or '.join(close)}?" if close else ""
                there = f"it has {', '.join(names)}" if names else "it has none"
                raise SpecError(self.name, f"there is no parameter {name}; {there}", meant)
        return read

    def checked(self, annotations: Mapping[str, object]) -> Checked | None:
        """The slow way of this function, or None where there is nothing to check."""
        hints = {p.name: self.hint(p, annotations) for p in self.parameters}
        result, yields = self.given_back(annotations.get("return", UNANNOTATED))
        gives = [hint for hint in (result, yields) if hint is not None]
        shapes = any(hint.has_shapes for hint in (*hints.values(), *gives))
        integers = tuple(name for name, hint in hints.items() if is_integer(hint))
        if not shapes and self.asked != "function":
            if not (integers and self.constructs):
                return None
            if self.asked == "package":
                return self.keeping(integers)
        if all(isinstance(hint, AnyHint) for hint in (*hints.values(), *gives)):
            raise SpecError(
                self.name,
                "there is nothing to check",
                'annotate its arrays, as in Annotated[np.ndarray, "d_k n"], or give a spec: '
                '@shapecheck("Q: d_k n, K: d_k m -> m n")',
            )
        of_arguments = [size for hint in hints.values() for size in sizes_in(hint)]
        sizes = [*of_arguments, *(size for hint in gives for size in sizes_in(hint))]
        tags = list(dict.fromkeys(tag for size in sizes for tag in size.tags))
        references = {tag: reference_path(tag) for tag in tags if is_reference(tag)}
        counts = {
            p.name: p.default is None or (hint is not ANYTHING and takes(hint, None))
            for p, hint in zip(self.parameters, hints.values(), strict=True)
            if p.name in tags and p.kind not in _SEVERAL and not hint.has_shapes
        }
        self.check_references(references)
        self.check_counts(counts, hints)
        fields = [name for hint in hints.values() for name in integer_fields(hint)]
        declared = Declared(
            name=self.name,
            kind=self.kind,
            parameters=self.parameters,
            hints=hints,
            result=result,
            yields=yields,
            counts=counts,
            references=references,
            instance=self.instance(hints),
            owner=self.owner,
            constructs=self.constructs and self.instance(hints) is not None,
            integers=integers,
            tags=tuple(tags),
            open_tags=undetermined(sizes, [*counts, *references, *fields]),
        )
        checked = Checked(declared, {tag for size in of_arguments for tag in size.tags})
        if declared.instance is None or declared.constructs:
            checked.require(())
        return checked

    def keeping(self, integers: tuple[str, ...] = ()) -> Checked:
        """The slow way of a function that declares no shape, and may be a constructor.

        Nothing is checked then, but the methods of an instance may speak of its integers.
        """
        instance = self.instance({}) if integers else None
        declared = Declared(
            name=self.name,
            kind=self.kind,
            parameters=self.parameters,
            hints={parameter.name: ANYTHING for parameter in self.parameters},
            result=None,
            yields=None,
            counts={},
            references={},
            instance=instance,
            owner=self.owner,
            constructs=instance is not None,
            integers=integers,
        )
        return Checked(declared)

    @property
    def owner(self) -> str:
        """The class that it is a method of, as `owner_of` calls it."""
        module = getattr(self.function, "__module__", None) or "builtins"
        return f"{module}.{self.qualname.rpartition('.')[0]}"

    @property
    def constructs(self) -> bool:
        """Whether this is the constructor of a class."""
        return self.name.endswith(".__init__")

    def hint(self, parameter: inspect.Parameter, annotations: Mapping[str, object]) -> Hint:
        """What a parameter is declared to be; its default always will do."""
        name = parameter.name
        annotation = annotations.get(name, UNANNOTATED)
        hint = hint_of(annotation, self.spec.parameters.get(name), self.name, name, self.scope)
        if isinstance(hint, AnyHint):
            return hint
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return EachHint(tuple, hint, f"a tuple, each of its elements {hint.label}")
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return MappingHint(dict, ANYTHING, hint, f"a dict, each of its values {hint.label}")
        default = parameter.default
        if default is inspect.Parameter.empty or takes(hint, default):
            return hint
        return DefaultHint(default, hint)

    def given_back(self, annotation: object) -> tuple[Hint | None, Hint | None]:
        """The hints of the result and of the values that a generator yields; None: nothing."""
        result: object = annotation
        yields: object = UNANNOTATED
        spec, of_yields = self.spec.result, None
        if "generator" in self.kind:
            result = UNANNOTATED
            if get_origin(annotation) in _GIVES:
                parts = get_args(annotation)
                yields = parts[0]
                result = parts[2] if len(parts) > 2 else UNANNOTATED
            spec, of_yields = None, spec
        hints = [
            hint_of(annotated, by_spec, self.name, place, self.scope)
            for annotated, by_spec, place in (
                (result, spec, "return"),
                (yields, of_yields, "the values yielded"),
            )
        ]
        result_hint, yields_hint = (None if isinstance(hint, AnyHint) else hint for hint in hints)
        return result_hint, yields_hint

    def instance(self, hints: Mapping[str, Hint]) -> str | None:
        """The parameter that is the instance, where this is a method."""
        owner = self.qualname.rpartition(".")[0] if self.of_instance else ""
        if not owner or owner.endswith("<locals>") or not self.parameters:
            return None
        first = self.parameters[0]
        by_position = first.kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        is_array = first.name in hints and hints[first.name].has_shapes
        return first.name if by_position and not is_array else None

    def check_references(self, references: Mapping[str, tuple[str, ...]]) -> None:
        names = [parameter.name for parameter in self.parameters]
        for tag, (first, *_) in references.items():
            if first not in names:
                close = nearest(first, names) or names
                raise SpecError(
                    self.name,
                    f"{tag} starts with {first}, which is no parameter",
                    f"its parameters are {', '.join(close)}" if close else "",
                )

    def check_counts(self, counts: Mapping[str, bool], hints: Mapping[str, Hint]) -> None:
        for name in counts:
            hint = hints[name]
            classes = hint.classes if isinstance(hint, PlainHint) else ()
            if classes and not any(issubclass(int, c) or hasattr(c, "__index__") for c in classes):
                kinds = " or ".join(c.__name__ for c in classes)
                raise SpecError(
                    self.name,
                    f"{name} is the size of an axis, and the name of a parameter that is a {kinds}",
                    f"call one of them something else, or annotate {name}: int",
                )


class Deferred:
    """A function whose annotations name what is not defined yet: it is built at its first call.

    Its source asks for the slow way at once; when that is known, the function goes on with it, and
    is given the source that it would have had.
    """

    def __init__(self, building: Building) -> None:
        self.building = building
        self.source: Source | None = None
        self.wrapper: FunctionType | None = None
        self.lock = threading.RLock()
        self.checked: Checked | None = None
        gives_values = "generator" in building.kind
        instance = building.instance({})
        self.declared = Declared(
            name=building.name,
            kind=building.kind,
            parameters=building.parameters,
            hints={},
            result=None if building.kind == "asynchronous generator" else LaterHint(),
            yields=LaterHint() if gives_values else None,
            counts={},
            references={},
            instance=instance,
            constructs=building.constructs and instance is not None,
            deferred=True,
        )

    def arguments(self, values: Sequence[Any]) -> Sizes:
        """Build what is called, and check the arguments of the first call with it."""
        with self.lock:
            if self.checked is None:
                self.checked = self.built(values)
        return self.checked.arguments(values)

    def built(self, values: Sequence[Any]) -> Checked:
        building = self.building
        classes = type(values[0]).__mro__ if self.declared.instance is not None else ()
        extra = {cls.__name__: cls for cls in reversed(classes)} | building.extra
        try:
            annotations = building.scope.annotations(extra)
        except NotYetDefined as error:
            problem = SpecError(
                building.name,
                f"{error}",
                "what is imported for type checkers only cannot be checked: import it for good",
            )
            if building.asked != "package":
                raise problem from None
            warnings.warn(UncheckedWarning(f"left unchecked: {problem}"), stacklevel=4)
            annotations = {}
        checked = building.checked(annotations) or building.keeping()
        source = emit(checked.declared, building.function, checked)
        made = building.run(source)
        wrapper = self.wrapper
        if wrapper is not None:
            source.objects[MARK] = checked
            checked.source, checked.wrapper = source, wrapper
            wrapper.__globals__.update(source.objects)
            wrapper.__code__ = made.__code__
            setattr(wrapper, MARK, checked)
        return checked
