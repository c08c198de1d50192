"""Which plan runs: both sources are generated, and the sizes of a call choose (see `choice`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from symattn.codegen.blocked import attended_sizes
from symattn.codegen.choice import FEW_QUERIES, FEW_SCORES, SMALL_MEMORY, suits_blocks
from symattn.codegen.emit import Source, emit, emit_blocked
from symattn.codegen.signature import Signature
from symattn.codegen.targets import Target
from symattn.errors import InputError, NotSupportedError
from symattn.nodes import Program

REMEMBERED = 256  # sizes of earlier calls for which it is known


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
            self.direct = emit(signature, program, target, returns)
        self.blocked: Source | None = None
        self.reason = 'plan="direct" was asked for'
        self.earlier: dict[tuple[Any, ...], Source] = {}
        if plan != "direct":
            try:
                if target.module != "numpy":
                    raise NotSupportedError(f"{target.name} has no such plan")
                self.blocked = emit_blocked(signature, program, target, returns)
                self.attended = attended_sizes(program)
                self.reason = "the scores are computed in blocks"
            except NotSupportedError as error:
                if plan == "blocked":
                    raise NotSupportedError(f'plan="blocked": {error.what}') from None
                self.reason = f"no blocks: {error.what}"
        if self.direct is not None and self.blocked is not None:
            self.reason = (
                f"blocks for more than {FEW_QUERIES} queries and {FEW_SCORES} scores a head, or "
                f"{SMALL_MEMORY} bytes of scores"
            )

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
    ) -> Source:
        """Return the source that suits the sizes of a call."""
        if self.blocked is None or self.direct is None:
            return self.shown
        # For one query, choosing takes a fifteenth of the work: it is done once for like arrays.
        arrays = [x for x in (*values, *masks.values()) if hasattr(x, "shape")]
        alike = (*sizes.values(), *[x.shape for x in arrays], arrays[0].dtype)
        source = self.earlier.get(alike)
        if source is None:
            if len(self.earlier) >= REMEMBERED:
                self.earlier.clear()
            source = self.earlier[alike] = self.suited(sizes, values, masks)
        return source

    def suited(
        self, sizes: Mapping[str, int], values: Sequence[Any], masks: Mapping[str, Any]
    ) -> Source:
        """Return the same without a look at earlier calls."""
        assert self.blocked is not None
        assert self.direct is not None
        given = dict(zip((item.name for item in self.signature.inputs), values, strict=True))
        given |= masks
        itemsize = given[self.signature.arrays[0].name].dtype.itemsize
        stacks = self.matrices(given)
        for queries, keys, indices in self.attended:
            heads = stacks * prod(size.value(sizes) for size in indices)
            if suits_blocks(queries.value(sizes), keys.value(sizes), heads, itemsize):
                return self.blocked
        return self.direct

    def matrices(self, given: Mapping[str, Any]) -> int:
        """Return how many matrices the leading axes of all arrays together hold."""
        batch: dict[int, int] = {}
        for item in self.signature.shaped:
            shape = given[item.name].shape
            for back, size in enumerate(reversed(shape[: len(shape) - len(item.axes)])):
                batch[back] = size if batch.get(back, 1) == 1 else batch[back]
        return prod(batch.values())


def as_workers(workers: Any) -> int | None:
    """Return a number of threads, or raise `InputError`.

    >>> as_workers(2), as_workers(None)
    (2, None)
    """
    if workers is None:
        return None
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        found = str(workers) if isinstance(workers, int) else f"a {type(workers).__name__}"
        raise InputError("workers", found, "", "a number of threads from 1, or None")
    return workers
