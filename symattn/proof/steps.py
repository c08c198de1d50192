"""Readable derivations: one named law at one place, line after line.

Both sides are rewritten, outermost and leftmost first, with directed laws that come to an end.
Where the two chains of lines first meet, the lines of the left side and then those of the right
side, read backwards, lead from one to the other.  The search is a courtesy: whether two sides are
equal is decided elsewhere, and finding no steps says nothing.

Few laws are tried before many: transposes alone, then laws that gather, and only then those that
multiply out, so that a derivation distributes nothing that it need not.

Invariant: ``law.rewrite`` turns the part of a step into what stands there afterwards, and nothing
else of the formula changes; `Step.replays` checks that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count

from symattn.errors import SymattnError
from symattn.nodes.core import Node
from symattn.nodes.given import assuming
from symattn.proof.laws import LAWS
from symattn.proof.laws.arithmetic import DISTRIBUTING
from symattn.proof.laws.law import Law
from symattn.proof.laws.transposes import TRANSPOSES
from symattn.tags import Relations

Path = tuple[int, ...]
"""Where a part stands: which matrix operand to go into, from the outside in."""

_MOST_LINES = 60
"""How often one side is rewritten before the search gives up."""

_STAGES: tuple[Mapping[str, Law], ...] = (
    TRANSPOSES,
    {name: law for name, law in LAWS.items() if name not in DISTRIBUTING},
    LAWS,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a derivation: ``before = after``, by one law at one place.

    ``part_before`` and ``part_after`` are the sub-expressions that the law is about.  A step is
    ``backwards`` where the law is read from its right side to its left; ``place`` is a path into
    the formula that the law rewrites, which then is ``after``.
    """

    law: str
    before: Node
    after: Node
    reason: str
    place: Path
    part_before: Node
    part_after: Node
    backwards: bool = False

    def reversed(self) -> Step:
        """Return the same step read the other way."""
        return replace(
            self,
            before=self.after,
            after=self.before,
            part_before=self.part_after,
            part_after=self.part_before,
            backwards=not self.backwards,
        )

    def replays(self) -> bool:
        """Tell whether the law, applied again at the place, makes this very step."""
        start = self.after if self.backwards else self.before
        try:
            again = rewritten(start, self.place, LAWS[self.law])
        except (KeyError, IndexError, SymattnError):  # no such law or place, or nothing fits there
            return False
        if again is None:
            return False
        return self == (again.reversed() if self.backwards else again)


def derive(left: Node, right: Node) -> tuple[Step, ...] | None:
    """Return the steps from the left side to the right, or None where none were found.

    >>> import symattn as sa
    >>> d, n, m = sa.dims("d n m")
    >>> Q, K = sa.matrix("Q", d, n), sa.matrix("K", d, m)
    >>> [step.law for step in derive((K.T @ Q).T, Q.T @ K)]
    ['transpose of a product', 'transpose of a transpose']

    Equal sides need no step.  Raises `RelationError` if the sides carry relations that contradict
    each other.
    """
    with under(left.given, right.given):
        aligned = _aligned(left, right)
        if aligned is not None:
            return aligned
        for place in reversed(_narrowing(left, right)):
            part, target = part_at(left, place), part_at(right, place)
            for laws in _STAGES if part.sizes == target.sizes else ():
                found = _meeting(part, _chain(part, laws), target, _chain(target, laws))
                if found is None:
                    continue
                steps = tuple(_of_the_whole(left, place, step) for step in found)
                if all(step.replays() for step in steps):
                    return steps
    return None


def rewritten(whole: Node, place: Path, law: Law) -> Step | None:
    """Return the step of a law at a place, or None if the law does not apply there."""
    part = part_at(whole, place)
    with under(whole.given):
        changed = law.rewrite(part)
        if changed is None:
            return None
        after = with_part(whole, place, changed)
    return Step(law.name, whole, after, law.reason, place, part, changed)


def part_at(whole: Node, place: Path) -> Node:
    """Return what stands at a place."""
    for k in place:
        whole = whole.matrices[k]
    return whole


def places_of(whole: Node, part: Node) -> Iterator[Path]:
    """Yield every place at which a part stands, from the outside in and from the left."""
    pending: list[tuple[Node, Path]] = [(whole, ())]
    while pending:
        node, place = pending.pop()
        if node == part:
            yield place
        pending.extend((inner, (*place, k)) for k, inner in reversed([*enumerate(node.matrices)]))


def with_part(whole: Node, place: Path, part: Node) -> Node:
    """Return a formula with another part at a place, checked again."""
    around: list[tuple[Node, int]] = []
    for k in place:
        around.append((whole, k))
        whole = whole.matrices[k]
    for node, k in reversed(around):
        part = with_operand(node, k, part)
    return part


def with_operand(node: Node, at: int, operand: Node) -> Node:
    """Return a node with another matrix operand at a position."""
    position = count()
    return node.rebuilt(lambda old: operand if next(position) == at else old)


@contextmanager
def under(*carried: Relations) -> Iterator[None]:
    """Put the relations that formulas carry in force, for parts that are built without them."""
    with assuming(*(f"{tag} = {size}" for relations in carried for tag, size in relations)):
        yield


def _aligned(left: Node, right: Node) -> tuple[Step, ...] | None:
    """Push transposes inwards just where the two sides differ, from the outside in.

    This finds the derivation that a person would write from one layout to the other: a transpose
    that both sides have is left alone.
    """
    down: list[Step] = []
    up: list[Step] = []
    for _ in range(_MOST_LINES):
        if left == right:
            return (*down, *(step.reversed() for step in reversed(up)))
        here = _first_difference(left, right)
        tries = (
            (down, left, [here]),
            (up, right, [here]),
            (down, left, _within(left, here)),
            (up, right, _within(right, here)),
        )
        for chain, side, places in tries:
            if step := _pushed(side, places):
                chain.append(step)
                break
        else:
            return None
        left = down[-1].after if down else left
        right = up[-1].after if up else right
    return None


def _first_difference(left: Node, right: Node) -> Path:
    """Return the outermost, leftmost place at which two formulas are different operations."""
    place: Path = ()
    while type(left) is type(right) and len(left.matrices) == len(right.matrices):
        pairs = zip(left.matrices, right.matrices, strict=True)
        differing = next((k for k, (old, new) in enumerate(pairs) if old != new), None)
        if differing is None:
            break
        place = (*place, differing)
        left, right = left.matrices[differing], right.matrices[differing]
    return place


def _pushed(whole: Node, places: Iterable[Path]) -> Step | None:
    """Push the transpose at the first of some places that has one inwards."""
    for place in places:
        for law in TRANSPOSES.values():
            if (step := rewritten(whole, place, law)) is not None:
                return step
    return None


def _within(whole: Node, place: Path) -> list[Path]:
    """Return the places of the operands of what stands at a place.

    They matter for products: a transposed product in front becomes factors of its own.
    """
    return [(*place, k) for k in range(len(part_at(whole, place).matrices))]


def _narrowing(left: Node, right: Node) -> list[Path]:
    """Return the places outside of which both sides agree: the whole, then ever smaller parts."""
    places: list[Path] = [()]
    while type(left) is type(right) and len(left.matrices) == len(right.matrices):
        pairs = enumerate(zip(left.matrices, right.matrices, strict=True))
        differing = [k for k, (old, new) in pairs if old != new]
        if len(differing) != 1:
            break
        [k] = differing
        # What is not a matrix (a scalar, an axis, a name) may differ too.
        try:
            if with_operand(left, k, right.matrices[k]) != right:
                break
        except SymattnError:  # along another axis, the operand of the one may not fit the other
            break
        left, right = left.matrices[k], right.matrices[k]
        places.append((*places[-1], k))
    return places


def _of_the_whole(whole: Node, place: Path, step: Step) -> Step:
    """Return a step of a part as a step of the whole formula."""
    before, after = (with_part(whole, place, part) for part in (step.before, step.after))
    return replace(step, before=before, after=after, place=place + step.place)


def _chain(side: Node, laws: Mapping[str, Law]) -> list[Step]:
    """Return the steps of rewriting one side, as far as the laws and the budget lead."""
    steps: list[Step] = []
    idle: set[Node] = set()
    while len(steps) < _MOST_LINES:
        step = _first_step(side, laws, idle)
        if step is None:
            break
        steps.append(step)
        side = step.after
    return steps


def _first_step(whole: Node, laws: Mapping[str, Law], idle: set[Node]) -> Step | None:
    """Return the outermost, leftmost step; ``idle`` collects parts to which no law applies."""
    pending: list[tuple[Node, Path]] = [(whole, ())]
    while pending:
        node, place = pending.pop()
        if node not in idle:
            for law in laws.values():
                if law.rewrite(node) is not None and (step := rewritten(whole, place, law)):
                    return step
            idle.add(node)
        pending.extend((part, (*place, k)) for k, part in reversed([*enumerate(node.matrices)]))
    return None


def _meeting(
    left: Node, down: Sequence[Step], right: Node, up: Sequence[Step]
) -> list[Step] | None:
    """Return the shortest way down the chain of one side and up that of the other."""
    heights: dict[Node, int] = {}
    for height, line in enumerate([right, *(step.after for step in up)]):
        heights.setdefault(line, height)
    ways = [
        (depth + heights[line], depth, heights[line])
        for depth, line in enumerate([left, *(step.after for step in down)])
        if line in heights
    ]
    if not ways:
        return None
    _, depth, height = min(ways)
    return [*down[:depth], *(step.reversed() for step in reversed(up[:height]))]
