"""Conditions on positions, as masks have them: ``j ≤ i``, ``i - w < j < i + w``, ``keep[i,j]``.

They are written alike under a softmax of whole matrices and inside an index form.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import ClassVar

from symattn.meaning.form import (
    Allowed,
    AtMost,
    Both,
    Component,
    Condition,
    Entry,
    Extent,
    Form,
    Index,
    Not,
    Parameter,
    Place,
    Position,
    Same,
    children,
    place,
)
from symattn.meaning.substitution import substitute
from symattn.notation.printer import Printer, Written
from symattn.notation.rows import Binding, Printable

_QUERIES, _KEYS = "iklpq", "jtsuv"
_QUERIES_OF_HEADS, _KEYS_OF_HEADS = "skpql", "tuvwj"
"""Letters of positions where i or j says which head."""


class ConditionRules(Printer):
    """What text and LaTeX of conditions share; ``names`` are those of the indices in sight."""

    names: dict[Index, str]

    def mask_of(self, node: Printable) -> str:
        """Write the mask that a node is under: i is the query, j is the key.

        They are s and t where i or j already says which head.
        """
        return self.mask_and_letters(node)[0]

    def mask_and_letters(self, node: Printable) -> tuple[str, str, str]:
        """Write the mask that a node is under, and where its query and its key stand."""
        assert node.mask is not None
        assert node.axis is not None
        sizes = node.sizes[1 - node.axis], node.sizes[node.axis]
        query, key = (place(size) for size in sizes)
        condition = node.mask.condition(query, key, sizes)
        outside, self.names = vars(self).get("names", {}), {}
        for at, free in zip((query, key), self._free_letters(condition), strict=True):
            self.names.update((index, next(free)) for index in at)
        written = self.condition(condition), self.read(query), self.read(key)
        self.names = outside
        return written

    def _free_letters(self, within: Form | Condition) -> tuple[Iterator[str], Iterator[str]]:
        """Yield letters for a query and for a key that nothing in sight has."""
        used = {*names_in(within), *self.running}
        apart = self.running & {"i", "j"}
        pools = (_QUERIES_OF_HEADS, _KEYS_OF_HEADS) if apart else (_QUERIES, _KEYS)
        query, key = (
            chain((letter for letter in pool if letter not in used), repeat(pool[0]))
            for pool in pools
        )
        return query, key

    def positioned(self, node: Printable) -> tuple[Written, list[str]]:
        """Write a number from two positions, and their names, in the order of rows and columns.

        Positions that have the name of an index are called otherwise.
        """
        form, names = node.parts[0], node.label.split(",")
        assert isinstance(form, Form)
        if not self.running.isdisjoint(names):
            letters = [next(free) for free in self._free_letters(form)]
            called = {
                old: lambda at, new=new: Parameter(new)
                for old, new in zip(names, letters, strict=True)
            }
            form, names = substitute(form, {}, called), letters
        return self.write(form), names if node.axis == 0 else names[::-1]

    def read(self, at: Place) -> str:
        """Write a place; a merged axis is a pair, and an axis of size one is not written."""
        letters = [self._letter_of(one) for one in at]
        return letters[0] if len(letters) == 1 else f"({','.join(letters)})" if letters else ""

    def _letter_of(self, one: Index | Component) -> str:
        if isinstance(one, Index):
            return self.letter(self.names[one])
        whole = self.read(one.of)
        for size in reversed(one.sizes[one.position + 1 :]):
            whole = self.divided(whole, self.size(size).text)
        return whole if one.position == 0 else self.remainder(whole, self.size(one.size).text)

    def _position(self, form: Position) -> Written:
        return Written(self.read(form.at) or "0", Binding.ATOM)

    SCALARS: ClassVar = {**Printer.SCALARS, Position: _position}

    def condition(self, condition: Condition) -> str:
        """Write a condition, without the brackets that make it 0 or 1."""
        signs = self.signs
        match condition:
            case Not(Both(Not(left), Not(right))):
                return self._pair(left, signs["or"], right)
            case Not(AtMost(Position() as left, right)):
                return self._compared(left, ">", right)
            case Not(AtMost(left, right)):
                return self._compared(right, "<", left)
            case Not(Same(left, right)):
                return f"{self.read(left) or '0'} {signs['≠']} {self.read(right) or '0'}"
            case Not(inner):
                return f"{signs['not']} {self._held_condition(inner)}"
            case Both(Not(AtMost(middle, least)), Not(AtMost(most, again))) if middle == again:
                return self._chained(least, middle, most)
            case Both(left, right):
                return self._pair(left, signs["and"], right)
            case AtMost(left, right):
                return self._compared(left, signs["≤"], right)
            case Same(left, right):
                return f"{self.read(left) or '0'} = {self.read(right) or '0'}"
            case Allowed(name, _, at):
                read = [letters for one in at if (letters := self.read(one))]
                return (self.entry(name, read) if read else self.name(name)).text

    def _compared(self, left: Form, sign: str, right: Form) -> str:
        return f"{self.scalar(left).text} {sign} {self.scalar(right).text}"

    def _chained(self, least: Form, middle: Form, most: Form) -> str:
        return f"{self._compared(least, '<', middle)} < {self.scalar(most).text}"

    def _pair(self, left: Condition, sign: str, right: Condition) -> str:
        return f"{self._held_condition(left, sign)} {sign} {self._held_condition(right)}"

    def _held_condition(self, condition: Condition, sign: str = "") -> str:
        """Write a condition in parentheses if it is composite, but for a chain of one sign."""
        text = self.condition(condition)
        match condition:
            case Both(Not(AtMost(middle, _)), Not(AtMost(_, again))) if middle == again:
                composite = False  # a < b < c
            case Both():
                composite = sign != self.signs["and"]
            case Not(Both(Not(_), Not(_))):
                composite = sign != self.signs["or"]
            case Not(Both()):
                composite = True
            case _:
                composite = False
        return f"({text})" if composite else text

    # Words.

    signs: ClassVar[Mapping[str, str]]

    @abstractmethod
    def divided(self, whole: str, part: str) -> str: ...
    @abstractmethod
    def remainder(self, whole: str, part: str) -> str: ...
    @abstractmethod
    def letter(self, name: str) -> str: ...
    @abstractmethod
    def entry(self, name: str, read: Sequence[str]) -> Written: ...


def names_in(form: Form | Condition) -> Iterator[str]:
    """Yield the names that an index must not take: scalars, tags used as values, inputs."""
    for part in parts_of(form):
        if isinstance(part, (Entry, Allowed, Parameter)):
            yield part.name
        elif isinstance(part, Extent):
            yield from part.size.tags


def parts_of(form: Form | Condition) -> Iterator[Form | Condition]:
    """Yield a form and everything inside it."""
    pending: list[Form | Condition] = [form]
    while pending:
        part = pending.pop()
        yield part
        pending.extend(children(part))
