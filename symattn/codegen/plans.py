"""Which plan runs: all sources are generated, and the sizes of a call choose (see `choice`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from symattn.codegen import choice
from symattn.codegen.blocked import attended_sizes
from symattn.codegen.emit import Source, emit, emit_blocked
from symattn.codegen.gpu import fused_choice, row_choice
from symattn.codegen.signature import Signature
from symattn.codegen.targets import Target
from symattn.errors import NotSupportedError
from symattn.nodes import Program

_EMITTERS: Mapping[str, Callable[..., Source]] = {
    "direct": emit,
    "blocked": emit_blocked,
    "fused": partial(emit_blocked, plan="fused"),
}

PLANS = {
    "direct": "whole matrices, written in the memory of what is no longer needed",
    "blocked": "softmax-weighted sums in strips of queries and blocks of keys",
    "fused": "a softmax-weighted sum by one kernel, which is compiled for the score",
    "auto": "the one that suits the sizes of a call",
}
"""The plans that may be asked for, and what they are."""

_NONE = {"blocked": "no blocks", "fused": "no kernel"}
"""What a formula is said to have where it has no such plan."""

_CHOICES: Mapping[str, ModuleType] = {"numpy": choice, "cupy": row_choice}
"""For each target, the module that tells which sizes suit blocks."""

REMEMBERED = 256  # sizes of earlier calls for which it is known


class Chosen(NamedTuple):
    """The source that a call runs, and of how many matrices at once; None is all of them."""

    source: Source
    at_once: int | None = None


class Plans:
    """The sources of one function, by plan: one alone, or all that there are."""

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
        self.choice = _CHOICES[target.name]
        self.by_name: dict[str, Source] = {}
        """The sources that are there; `direct` is the first of several."""
        self.earlier: dict[tuple[Any, ...], Chosen] = {}
        if plan not in (*target.plans, "auto"):
            raise NotSupportedError(f'plan="{plan}" with backend="{target.name}"')
        missing: dict[str, str] = {}
        for name in target.plans if plan == "auto" else (plan,):
            try:
                self.by_name[name] = self.emitted(name, signature.function)
            except NotSupportedError as error:
                if name == "direct":  # it is there for all that can be computed
                    raise
                if name == plan:
                    raise NotSupportedError(f'plan="{plan}": {error.what}') from None
                missing[name] = error.what
        if plan == "auto" and len(self.by_name) > 1:
            self.attended = attended_sizes(program)
        if plan == "auto" and "fused" in self.by_name:
            self.widths = fused_choice.fused_widths(program)
        self.reason = f'plan="{plan}" was asked for' if plan != "auto" else self.told(missing)

    def told(self, missing: Mapping[str, str]) -> str:
        """Return which plan is taken when, and why others are missing."""
        reasons = {"fused": fused_choice.REASON, "blocked": self.choice.REASON}
        there = [reasons[name] for name in reasons if name in self.by_name]
        lacking: dict[str, list[str]] = {}
        for name, why in missing.items():
            lacking.setdefault(why, []).append(_NONE[name])
        return "; ".join([*there, *(f"{' and '.join(no)}: {why}" for why, no in lacking.items())])

    def emitted(self, plan: str, function: str) -> Source:
        """Return the source of a plan, whose function has a name; raises `NotSupportedError`."""
        signature = replace(self.signature, function=function)
        return _EMITTERS[plan](signature, self.program, self.target, self.returns)

    @property
    def name(self) -> str:
        """The plan that is taken, or ``"auto"`` where several are there."""
        return next(iter(self.by_name)) if len(self.by_name) == 1 else "auto"

    @property
    def in_threads(self) -> bool:
        """Whether a call may say how many threads to use."""
        return any(source.workers for source in self.by_name.values())

    @property
    def shown(self) -> Source:
        """The source to read, and to take where there is one alone."""
        return next(iter(self.by_name.values()))

    @property
    def sizes(self) -> tuple[str, ...]:
        """The tags that one of the sources has to be given."""
        return tuple(dict.fromkeys(t for source in self.by_name.values() for t in source.sizes))

    def chosen(
        self, sizes: Mapping[str, int], values: Sequence[Any], masks: Mapping[str, Any]
    ) -> Chosen:
        """Return the source that suits the sizes of a call."""
        if len(self.by_name) == 1:
            return Chosen(self.shown)
        # For one query, choosing takes a fifteenth of the work: it is done once for like arrays.
        arrays = [x for x in (*values, *masks.values()) if hasattr(x, "shape")]
        place = getattr(getattr(arrays[0], "device", None), "id", None)  # devices differ in kind
        alike = (*sizes.values(), *[x.shape for x in arrays], arrays[0].dtype, place)
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
        given = dict(zip((item.name for item in self.signature.inputs), values, strict=True))
        given |= masks
        dtype = given[self.signature.arrays[0].name].dtype
        stacks = self.matrices(given)
        tokens = [
            (n.value(sizes), m.value(sizes), prod(h.value(sizes) for h in indices))
            for n, m, indices in self.attended
        ]
        if "fused" in self.by_name:
            queries, widths = [n for n, _, _ in tokens], [w.value(sizes) for w in self.widths]
            if fused_choice.suits_fused(queries, widths, dtype, self.target.load):
                return Chosen(self.by_name["fused"])
        if any(
            self.choice.suits_blocks(n, m, stacks * heads, dtype.itemsize) for n, m, heads in tokens
        ):
            return Chosen(self.by_name["blocked"])
        most = min(self.choice.at_once(n * m * heads, dtype.itemsize) for n, m, heads in tokens)
        return Chosen(self.by_name["direct"], most if most < stacks else None)

    def matrices(self, given: Mapping[str, Any]) -> int:
        """Return how many matrices the leading axes of all arrays together hold."""
        batches = (given[item.name].shape[: -len(item.axes)] for item in self.signature.shaped)
        return prod(np.broadcast_shapes(*batches))
