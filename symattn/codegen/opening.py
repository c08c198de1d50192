"""What generated source begins with: imports of what it calls, and a docstring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symattn.codegen import plain_sums, softmax_sums, spans, strips
from symattn.codegen.gpu import fused, row_blocks
from symattn.codegen.signature import Signature
from symattn.notation.names import identifier

INDENT = "    "


_ON_THE_CPU = (plain_sums, softmax_sums, spans, strips)
_ON_A_DEVICE = (spans, row_blocks, fused)


def support_imports(called: Mapping[str, str], *, in_threads: bool = True) -> list[str]:
    """Return the imports of functions of symattn, each by what it is called in the source.

    >>> support_imports({"run": "run", "spread": "spread_2"})
    ['from symattn.codegen.strips import run, spread as spread_2']

    ``in_threads`` says that the source runs on the CPU.
    """
    modules = _ON_THE_CPU if in_threads else _ON_A_DEVICE
    found: dict[str, list[str]] = {module.__name__: [] for module in modules}
    for name, alias in sorted(called.items()):
        home = next(module for module in modules if hasattr(module, name))
        found[home.__name__].append(name if name == alias else f"{name} as {alias}")
    return [f"from {path} import {', '.join(names)}" for path, names in found.items() if names]


def opening_docstring(
    signature: Signature,
    given: Sequence[str],
    optional: Mapping[str, str],
    returned: Sequence[str],
) -> str:
    """Return the formula, the shape of each input, and what is returned.

    ``given`` are the tags whose sizes are parameters, ``optional`` says what those are that may be
    None, and ``returned`` are the last lines.
    """
    first, *lines = [*signature.summary.splitlines(), "", *signature.described]
    lines += [f"{identifier(tag)}: the size {tag}" for tag in given]
    lines += [f"{name}: {what}, or None" for name, what in optional.items() if name]
    lines += returned
    return "\n".join([first, *(f"{INDENT}{line}" if line else "" for line in lines), INDENT])
