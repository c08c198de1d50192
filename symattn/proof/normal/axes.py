"""How axes are read: as merged axes (heads by features), as direct sums (block by block), or plain.

Where one side reads an axis of size ``h·d_v`` as heads by features, every axis of that size is
split so on both sides, and where one side stacks blocks on an axis, every axis of that size is read
block by block.  If a size is stacked in two ways (``[K_1 K_2]`` and ``[K_2 K_1]``), each axis is
read as the blocks on it are: axes are one where a condition compares them, or where a softmax along
one is read at the other.  Two ways to read one axis cannot be aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from symattn.meaning.form import (
    Block,
    Blocks,
    Condition,
    Form,
    Index,
    Place,
    Same,
    Softmax,
    children,
    indices_of,
)
from symattn.proof.normal.splits import ConflictingSplitsError, splits_of
from symattn.tags import Relations, Size

Parts = tuple[Size, ...]


class Axes:
    """How every axis of some forms is read, under the relations between their tags."""

    def __init__(self, forms: Sequence[Form] = (), relations: Relations = Relations()) -> None:  # noqa: B008
        self._relations = relations
        self._one: dict[Index, Index] = {}
        stacked = self._collected(forms)
        self.merged = splits_of(forms, relations)
        self._by_size = self._agreed(stacked)
        self._by_axis: dict[Index, Parts] = {}
        for form in stacked:
            if self._size(form) in self.merged:
                raise ConflictingSplitsError(
                    f"the axis of size {self._size(form)} is both a product and a sum"
                )
        self._stacked = [form for form in stacked if self._size(form) not in self._by_size]
        for form in self._stacked:
            self._parts_on(self._axis_of(form))

    def parts(self, place: Place) -> Parts | None:
        """Return the sizes of the blocks on an axis, nested ones opened; None for a plain axis."""
        if len(place) != 1 or not isinstance(place[0], Index):
            return None
        known = self.parts_of(self._relations.rewrite(place[0].size))
        return self._by_axis.get(self._axis(place[0])) if known is None else known

    def parts_of(self, size: Size) -> Parts | None:
        """Return the sizes of the blocks on every axis of a size, or None if they do not agree."""
        return self._by_size.get(size)

    def _collected(self, forms: Iterable[Form]) -> list[Blocks]:
        """Collect the direct sums in forms, and join the indices that are read at one axis."""
        found: list[Blocks] = []
        pending: list[Form | Condition] = list(forms)
        while pending:
            form = pending.pop()
            pending.extend(children(form))
            match form:
                case Blocks():
                    if len(form.at) != 1 or not isinstance(form.at[0], Index):
                        raise ConflictingSplitsError("a direct sum is read as a merged axis")
                    found.append(form)
                case Softmax(index, _, (Index() as at,), _):
                    self._join(index, at)
                case Same((Index() as left,), (Index() as right,)):
                    self._join(left, right)
                case _:
                    pass
        return found

    def _join(self, left: Index, right: Index) -> None:
        self._one[self._axis(left)] = self._axis(right)

    def _axis(self, index: Index) -> Index:
        """Return the index that stands for all that are read at the same axis."""
        while self._one.get(index, index) != index:
            index = self._one[index]
        return index

    def _axis_of(self, form: Blocks) -> Index:
        """Return the axis on which a direct sum is read."""
        return self._axis(next(indices_of(form.at)))

    def _size(self, form: Blocks) -> Size:
        return self._relations.rewrite(sum((p.size for p in form.parts), start=Size.of(0)))

    def _agreed(self, stacked: Iterable[Blocks]) -> dict[Size, Parts]:
        """Return the parts of every size that is stacked in one way only."""
        found: dict[Size, set[Parts]] = {}
        for form in stacked:
            parts = tuple(self._relations.rewrite(part.size) for part in form.parts)
            found.setdefault(self._size(form), set()).add(parts)

        def opened(size: Size) -> Parts | None:
            ways: set[Parts | None] = set()
            for parts in found.get(size, ((size,),)):
                inner = [(part,) if part == size else opened(part) for part in parts]
                ways.add(None if None in inner else tuple(p for each in inner for p in each or ()))
            return ways.pop() if len(ways) == 1 else None

        every = {size: opened(size) for size in found}
        return {size: parts for size, parts in every.items() if parts is not None}

    def _parts_on(self, axis: Index) -> Parts:
        """Return the parts of an axis whose size is stacked in several ways."""
        if axis not in self._by_axis:
            forms = [form for form in self._stacked if self._axis_of(form) == axis]
            ways = {tuple(p for part in form.parts for p in self._within(part)) for form in forms}
            if len(ways) > 1:
                one, other = sorted(" + ".join(map(str, way)) for way in ways)[:2]
                raise ConflictingSplitsError(
                    f"an axis of size {self._size(forms[0])} is read both as {one} and as {other}"
                )
            self._by_axis[axis] = ways.pop()
        return self._by_axis[axis]

    def _within(self, part: Block) -> Parts:
        """Return the parts of one part: itself, unless it is a direct sum again."""
        for index in indices_of(part.place):
            axis = self._axis(index)
            if any(self._axis_of(form) == axis for form in self._stacked):
                return self._parts_on(axis)
        return self.parts(part.place) or (self._relations.rewrite(part.size),)
