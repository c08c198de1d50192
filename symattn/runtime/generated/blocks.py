"""Source in blocks: names that do not collide, and statements under conditions and loops."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

_TAKEN = frozenset([*keyword.kwlist, *dir(builtins)])


class Names:
    """Identifiers of one generated function: none is given twice, and none hides another.

    >>> names = Names(["Q", "n"])
    >>> names.fresh("n"), names.fresh("d_k"), names.fresh("{self.h}"), names.fresh("d_k")
    ('n_', 'd_k', 'self_h', 'd_k_')
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.parameters = frozenset(taken)
        self._taken = {*self.parameters, *_TAKEN}

    def is_builtin(self, name: str, value: object) -> bool:
        """Whether an object is what this name stands for anyway: no parameter hides it.

        >>> Names(["len"]).is_builtin("len", len), Names(["Q"]).is_builtin("len", len)
        (False, True)
        """
        return name not in self.parameters and getattr(builtins, name, self) is value

    def fresh(self, wish: str) -> str:
        """An identifier that says what was wished for, as nearly as may be."""
        name = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", wish)).strip("_")
        name = next((n for n in (name, f"_{name}") if n.isidentifier()), "it")
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


@dataclass(slots=True)
class Block:
    """Statements, then tests; then blocks that are entered where the tests hold.

    ``header`` is the line under which the block stands: a condition, or a loop over the elements.
    """

    header: str = ""
    statements: list[str] = field(default_factory=list[str])
    tests: list[str] = field(default_factory=list[str])
    inner: list[Block] = field(default_factory=list["Block"])

    def lines(self, fits: str) -> list[str]:
        """The block as source; afterwards the variable ``fits`` says whether all tests held."""
        if "False" in self.tests:
            return [f"{fits} = False"]
        tests = " and ".join(dict.fromkeys(self.tests)) or "True"
        lines = [*self.statements, f"{fits} = {tests}"]
        for block in self.inner:
            body = block.lines(fits)
            if block.header.startswith("for "):
                body = [block.header, *indented([*body, f"if not {fits}:", "    break"])]
                lines += [f"if {fits}:", *indented(body)]
            else:
                lines += [f"if {fits} and {block.header}:", *indented(body)]
        return lines


def listed(names: Iterable[str]) -> str:
    """Names or values with commas between them: as targets of an assignment, or a tuple."""
    found = list(names)
    return f"{found[0]}," if len(found) == 1 else ", ".join(found)


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    """The lines, further to the right."""
    return ["    " * by + line for line in lines]
