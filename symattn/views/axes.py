"""Axes of values in a program: brought into an order, to full size, put together and taken apart.

Invariant: a value is source together with the indices along its axes, in order; whatever joins
values first brings them to the same indices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from symattn.meaning.form import Index
from symattn.notation.rows import Binding
from symattn.tags import Size
from symattn.views.letters import Letters, Value
from symattn.views.spelling import Numbers

_SIMPLE = re.compile(r"\w+(\[\.\.\., [:0, ]+\])?(\.reshape\([^()]*\))?")
"""Source that needs no line of its own: a name, a row or column of one, an array in other axes."""


class Axes:
    """Writes what a program does with axes; ``lines`` has those lines written so far."""

    def __init__(self, letters: Letters, taken: Iterable[str], *, batch: bool) -> None:
        self.lines: list[tuple[str, str, tuple[Size, ...]]] = []
        self.functions: dict[str, None] = {}
        self.letters = letters
        self.taken = set(taken)
        self.dots = "..." if batch else ""

    def call(self, function: str) -> str:
        """Return the name of a function of the array library, which is imported."""
        self.functions[function] = None
        return function

    def named(self, value: Value) -> Value:
        """Return a value that is a name or a number, giving it a line of its own if need be."""
        is_number = not value.indices and not value.leading
        if is_number or _SIMPLE.fullmatch(value.code):
            return value
        k = 1
        while f"T_{k}" in self.taken:
            k += 1
        name = f"T_{k}"
        self.taken.add(name)
        self.lines.append((name, value.code, tuple(index.size for index in value.indices)))
        return Value(name, value.indices, leading=value.leading)

    def einsum(self, values: Sequence[Value], kept: tuple[Index, ...]) -> Value:
        seen = (index for value in values for index in value.indices)
        letters = self.letters.assigned((*kept, *seen))
        read = ",".join(
            self.dots + "".join(letters[index] for index in value.indices) for value in values
        )
        spec = f"{read}->{self.dots}{''.join(letters[index] for index in kept)}"
        arguments = ", ".join(value.code for value in values)
        code = f'{self.call("einsum")}("{spec}", {arguments})'
        return Value(code, kept, leading=bool(self.dots))

    def aligned(self, value: Value, indices: Sequence[Index]) -> Value:
        """Return a value with axes in the order of some indices; axes that it lacks are of one."""
        there = tuple(index for index in indices if index in value.indices)
        if there != value.indices:
            value = self.einsum([self.named(value)], there)
        if (not there and not value.leading) or len(there) == len(indices):
            return value
        axes = [":" if index in there else "None" for index in indices]
        while not self.dots and axes[0] == "None":  # NumPy adds axes in front by itself
            axes.pop(0)
        if "None" not in axes:
            return value
        code = f"{value.held(Binding.ATOM)}[..., {', '.join(axes)}]"
        return replace(value, code=code, binding=Binding.POWER)

    def spread(
        self,
        value: Value,
        indices: Sequence[Index],
        extra: Sequence[Index] = (),
        sizes: Mapping[Index, Size] | None = None,
    ) -> Value:
        """Return a value that has every axis at its full size."""
        wanted = tuple(dict.fromkeys((*indices, *extra)))
        if value.indices == wanted:
            return value
        aligned = self.aligned(value, wanted)
        if set(value.indices) == set(wanted):
            return aligned
        of = sizes or {}
        shape = ", ".join(self.extent(of.get(index, index.size)) for index in wanted)
        shape = f"({shape},)" if len(wanted) == 1 else f"({shape})"
        zeros = f"{self.call('zeros')}({shape})"
        code = f"{aligned.held(Binding.HADAMARD)} + {zeros}"
        return Value(code, wanted, Binding.SUM, value.leading)

    def extent(self, size: Size) -> str:
        """Return the source of a size."""
        return Numbers(self.call).size(size).text

    def split(self, value: Value, read: Mapping[Index, Sequence[Index]]) -> Value:
        """Return a value in which axes are read by their factors; a single one is another name."""
        of_axis = [read.get(index, (index,)) for index in value.indices]
        indices = tuple(part for parts in of_axis for part in parts)
        if any(len(parts) > 1 for parts in of_axis):
            return self._reshaped(value, indices)
        return replace(value, indices=indices)

    def merged(self, value: Value, parts: Sequence[Index], index: Index) -> Value:
        """Return a value in which axes are one, in the order of its factors, at the first of them.

        The value has all of these axes, at full size.
        """
        if parts == (index,):
            return value
        at = value.indices.index(parts[0])
        others = [one for one in value.indices if one not in parts]
        value = self.aligned(value, (*others[:at], *parts, *others[at:]))
        indices = (*others[:at], index, *others[at:])
        return self._reshaped(value, indices)

    def _reshaped(self, value: Value, indices: tuple[Index, ...]) -> Value:
        """Return the same numbers along other axes, row-major."""
        sizes = ", ".join(self.extent(index.size) for index in indices)
        if value.leading:
            value = self.named(value)
            sizes = f"*{value.code}.shape[:-{len(value.indices)}], {sizes}"
        code = f"{value.held(Binding.ATOM)}.reshape({sizes})"
        return Value(code, indices, leading=value.leading)


def joined(values: Sequence[Value], order: Sequence[Index]) -> tuple[Index, ...]:
    """Return every index of some values once: those that an order names in it, then the others."""
    there = dict.fromkeys(index for value in values for index in value.indices)
    first = [index for index in order if index in there]
    return (*first, *(index for index in there if index not in first))
