"""Which plan runs: both sources are generated, and the sizes of a call choose (see `choice`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from symattn.codegen.blocked import attended_sizes
from symattn.codegen.choice import FEW_QUERIES, FEW_SCORES, at_once, suits_blocks
from symattn.codegen.emit import Source, emit, emit_blocked
from symattn.codegen.signature import Signature
from symattn.codegen.targets import Target
from symattn.errors import NotSupportedError
from symattn.nodes import Program

_EMITTERS = {"direct": emit, "blocked": emit_blocked}

PLANS = {
    "direct": "whole matrices, written in the memory of what is no longer needed",
    "blocked": "softmax-weighted sums in strips of queries and blocks of keys",
    "auto": "the one of the two that suits the sizes of a call",
}
"""The plans that may be asked for, and what they are."""

REMEMBERED = 256  # sizes of earlier calls for which it is known


class Chosen(NamedTuple):
    """The source that a call runs, and of how many matrices at once; None is all of them."""

    source: Source
    at_once: int | None = None


class Plans:
    """The sources of one function: the direct one, the blocked one where there is one, or both."""

    def __init__(
        self,
        signature: Signature,
        program: Program,
        target: Target,
        plan: str,
        returns: Sequence[str] = (),
    ) -> None:
        self.signature, self.program, self.target = signature, program, target
        self.returns = returns
        self.direct: Source | None = None
        if plan != "blocked":
            self.direct = self.emitted("direct", signature.function)
        self.blocked: Source | None = None
        self.reason = 'plan="direct" was asked for'
        self.earlier: dict[tuple[Any, ...], Chosen] = {}
        if plan != "direct":
            try:
                if target.module != "numpy":
                    raise NotSupportedError(f"{target.name} has no such plan")
                self.blocked = self.emitted("blocked", signature.function)
                self.attended = attended_sizes(program)
                self.reason = "the scores are computed in blocks"
            except NotSupportedError as error:
                if plan == "blocked":
                    raise NotSupportedError(f'plan="blocked": {error.what}') from None
                self.reason = f"no blocks: {error.what}"
        if self.direct is not None and self.blocked is not None:
            self.reason = (
                f"blocks where a head has more than {FEW_QUERIES} queries and "
                f"{FEW_SCORES:,} scores, or many heads have nearly so many; else whole matrices, "
                "a few at a time"
            )

    def emitted(self, plan: str, function: str) -> Source:
        """Return the source of a plan, whose function has a name; raises `NotSupportedError`."""
        signature = replace(self.signature, function=function)
        return _EMITTERS[plan](signature, self.program, self.target, self.returns)

    @property
    def name(self) -> str:
        """The plan that is taken, or ``"auto"`` where both are there."""
        if self.direct is None:
            return "blocked"
        return "direct" if self.blocked is None else "auto"

    @property
    def shown(self) -> Source:
        """The source to read, and to take where there is one alone."""
        source = self.direct or self.blocked
        assert source is not None, "one of the two is always there"
        return source

    @property
    def by_name(self) -> Mapping[str, Source]:
        """The sources that are there."""
        both = {"direct": self.direct, "blocked": self.blocked}
        return {plan: source for plan, source in both.items() if source is not None}

    @property
    def sizes(self) -> tuple[str, ...]:
        """The tags that one of the sources has to be given."""
        return tuple(dict.fromkeys(t for source in self.by_name.values() for t in source.sizes))

    def chosen(
        self, sizes: Mapping[str, int], values: Sequence[Any], masks: Mapping[str, Any]
    ) -> Chosen:
        """Return the source that suits the sizes of a call."""
        if self.blocked is None or self.direct is None:
            return Chosen(self.shown)
        # For one query, choosing takes a fifteenth of the work: it is done once for like arrays.
        arrays = [x for x in (*values, *masks.values()) if hasattr(x, "shape")]
        alike = (*sizes.values(), *[x.shape for x in arrays], arrays[0].dtype)
        chosen = self.earlier.get(alike)
        if chosen is None:
            if len(self.earlier) >= REMEMBERED:
                self.earlier.clear()
            chosen = self.earlier[alike] = self.suited(sizes, values, masks)
        return chosen

    def suited(
        self, sizes: Mapping[str, int], values: Sequence[Any], masks: Mapping[str, Any]
    ) -> Chosen:
        """Return the same without a look at earlier calls."""
        assert self.blocked is not None
        assert self.direct is not None
        given = dict(zip((item.name for item in self.signature.inputs), values, strict=True))
        given |= masks
        itemsize = given[self.signature.arrays[0].name].dtype.itemsize
        stacks = self.matrices(given)
        most = stacks
        for queries, keys, indices in self.attended:
            n, m = queries.value(sizes), keys.value(sizes)
            heads = prod(size.value(sizes) for size in indices)
            if suits_blocks(n, m, stacks * heads, itemsize):
                return Chosen(self.blocked)
            most = min(most, at_once(n * m * heads, itemsize))
        return Chosen(self.direct, most if most < stacks else None)

    def matrices(self, given: Mapping[str, Any]) -> int:
        """Return how many matrices the leading axes of all arrays together hold."""
        batches = (given[item.name].shape[: -len(item.axes)] for item in self.signature.shaped)
        return prod(np.broadcast_shapes(*batches))
