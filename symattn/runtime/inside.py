"""What the body of a checked function may ask: the sizes of its call, and whether an array fits.

A call's sizes stand in the frame of its checked function, so they cost a call nothing: they are
looked up on the stack when somebody asks.  Each call, thread, coroutine and generator has a frame
of its own, and none sees another's.  What runs on another stack (a thread that the body starts) is
given them: `within=bindings()`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any, TypeVar

from symattn.errors import NoBindingsError, SizeSyntaxError, SpecError
from symattn.runtime.checked import Checked, check_value
from symattn.runtime.current import running_elsewhere
from symattn.runtime.declared.hints import ArrayHint, Hint
from symattn.runtime.declared.questions import sizes_in
from symattn.runtime.declared.reading import hint_of
from symattn.runtime.generated.emit import MARK
from symattn.runtime.judging.equations import Bound, shown
from symattn.runtime.switch import STATE
from symattn.tags import undetermined
from symattn.tags.spec import is_reference, parse_shape

__tracebackhide__ = True  # pytest shows the call, and the message

Array = TypeVar("Array")


class Bindings(Mapping[str, "int | tuple[int, ...]"]):
    """The sizes of one call, by tag; the axes of a rest such as `*batch` are a tuple.

    ``function`` is the function's name, and ``origins`` say of each size where it comes from.
    """

    def __init__(self, function: str, sizes: Mapping[str, Bound]) -> None:
        self.function = function
        self.sizes = dict(sizes)
        joined = shown(self.sizes)
        self._sizes = {tag.lstrip("*"): size for tag, (size, _) in joined.items()}
        self.origins = {tag.lstrip("*"): origin for tag, (_, origin) in joined.items()}

    def __getitem__(self, tag: str) -> int | tuple[int, ...]:
        return self._sizes[tag]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{tag} = {size}" for tag, size in self.items())
        return f"<{self.function}(): {sizes or 'no sizes'}>"


def bindings() -> Bindings:
    """The sizes of the checked call whose body asks.

    >>> import numpy as np
    >>> from symattn import bindings, shapecheck
    >>> @shapecheck("Q: d_k n, K: d_k m")
    ... def attend(Q, K):
    ...     return bindings()
    >>> sizes = attend(np.ones((4, 5)), np.ones((4, 7)))
    >>> sizes, sizes["m"]
    (<attend(): d_k = 4, n = 5, m = 7>, 7)

    A function that the body calls gets the same.  What is bound by `expect` is there too.

    Raises `NoBindingsError` where no checked call is on the stack: in another thread, and where
    checks are off, or were when the function was decorated.
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    call = _call_around(frame)
    if call is None:
        raise NoBindingsError("bindings()")
    return Bindings(call.checked.declared.name, call.sizes())


def expect(array: Array, shape: Any, /, *, within: Bindings | None = None) -> Array:
    """Return an array after checking that it has this shape, given the sizes of the call.

    >>> import numpy as np
    >>> from symattn import expect, shapecheck
    >>> @shapecheck("Q: d_k n, K: d_k m")
    ... def scores(Q, K):
    ...     return expect(K.T @ Q, "m n")
    >>> scores(np.ones((4, 5)), np.ones((4, 7))).shape
    (7, 5)

    ``shape`` is text, or any annotation that `shapecheck` takes.  A tag that is not bound yet is
    bound, and holds until the function returns.  ``within`` gives the sizes where the function
    that bound them is not on the stack: in a thread that it started.

    Raises `ShapeCheckError` or `TypeCheckError` as a checked function does, `NoBindingsError` where
    there are no sizes, `SpecError` for a shape that cannot be read or whose tags do not follow.
    """
    if STATE.unusual and not STATE.is_on():
        return array
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    if within is not None:
        function, known, own = within.function, within.sizes, None
    else:
        call = _call_around(frame)
        if call is None:
            raise NoBindingsError("expect()")
        function, own = call.checked.declared.name, call.own
        known = call.sizes()
    hint = _declared(shape) if isinstance(shape, str) else hint_of(shape, None, function, "it")
    if any(tag not in known for size in sizes_in(hint) for tag in size.tags):
        _refuse_open(hint, known)
    sizes = check_value(function, hint, array, _name_of(array, frame), known)
    if own is not None:
        own.update({tag: bound for tag, bound in sizes.items() if tag not in known})
    return array


@lru_cache(maxsize=1024)
def _declared(shape: str) -> Hint:
    try:
        return ArrayHint(parse_shape(shape))
    except SizeSyntaxError as error:
        raise SpecError("expect", str(error)) from None


@dataclass(frozen=True, slots=True)
class _Call:
    checked: Checked
    values: Sequence[Any]
    seen: Mapping[str, Any]
    own: dict[str, Bound]

    def sizes(self) -> dict[str, Bound]:
        """Those of the instance, of the arguments, and what the body bound."""
        return self.checked.known_after(self.values, self.seen, self.own)


def _call_around(frame: FrameType | None) -> _Call | None:
    """The innermost checked call on the stack above a frame, else that of the context."""
    while frame is not None:
        checked = frame.f_globals.get(MARK)
        if isinstance(checked, Checked) and checked.source is not None:
            source, variables = checked.source, frame.f_locals
            own = variables.get(source.own)
            if own is not None:  # else the call was let through unchecked
                seen = variables.get(source.sizes)
                if seen is None:
                    seen = {tag: variables.get(name) for tag, name in source.variables.items()}
                values = [variables.get(p.name) for p in checked.declared.parameters]
                return _Call(checked, values, seen, own)
        frame = frame.f_back
    found = running_elsewhere()
    if found is None:
        return None
    return _Call(found.checked, found.values, found.seen, found.own)


def _refuse_open(hint: Hint, known: Mapping[str, Bound]) -> None:
    """Refuse tags that neither the call nor this one array tells: nothing would be checked."""
    sizes = list(sizes_in(hint))
    looked_up = [tag for size in sizes for tag in size.tags if is_reference(tag)]
    for tag in (tag for tag in looked_up if tag not in known):
        raise SpecError(
            "expect",
            f"{tag} is no size of this call",
            f'give the number itself, as in f"{tag} n"',
        )
    made_of_others = [size for size in sizes if size.single_tag is None]
    if all(tag in known for size in made_of_others for tag in size.tags):
        return
    missing = undetermined(sizes, known)
    if missing:
        raise SpecError(
            "expect",
            f"{' and '.join(missing)} cannot be told from this array and the sizes of the call",
            f"declare an axis that is {missing[0]} alone",
        )


def _name_of(array: object, frame: FrameType) -> str:
    """What the caller calls this array, if a variable of his holds it."""
    names = (name for name, value in frame.f_locals.items() if value is array)
    return next(names, "the array")
