"""`M[d_k, n]`: a shape spelled with the tags of formulas, as an annotation.

Tags and what SymPy computes from them are taken as the text that they print; it is read like every
other shape, and never evaluated.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any, NoReturn, cast

from symattn.errors.checks import SpecError
from symattn.runtime.declared.phrases import said
from symattn.tags.size import Size


class M:
    """An array of any library whose axes have these sizes.

    >>> M["d_k n"]
    typing.Annotated[typing.Any, 'd_k n']
    >>> M[..., "2*n", 3]
    typing.Annotated[typing.Any, '... 2*n 3']

    Sizes are tags (`sa.dims`) and expressions of them, integers, text, and `...` for any axes;
    `M[()]` has no axes.  It composes: `M[d_k, n] | None`, `list[M[d_k, n]]`.

    Raises `SpecError` for what is no size, and where it is called.  Text is read when a function is
    decorated.
    """

    def __class_getitem__(cls, items: object) -> Any:
        sizes = cast("tuple[object, ...]", items) if isinstance(items, tuple) else (items,)
        return Annotated[Any, " ".join(_text(size) for size in sizes)]

    def __new__(cls, *_: object, **__: object) -> NoReturn:
        raise SpecError("M", "it is an annotation, and is not called", 'write M["d_k n"]')


def _text(size: object) -> str:
    if isinstance(size, str):
        return size
    if size is Ellipsis:
        return "..."
    if isinstance(size, Size) or hasattr(size, "free_symbols"):  # SymPy's expressions have these
        text = str(size).replace(" ", "")
        return f"({text})" if text.startswith("-") else text  # `h -n+m` would be one size
    try:
        if not isinstance(size, bool):
            return str(operator.index(cast(Any, size)))
    except TypeError:
        pass
    fix = 'sizes are tags, integers, text and ...: M[d_k, n], M[..., 3], M["*batch", 2*n]'
    raise SpecError("M", f"{said(size)} is not a size", fix)
