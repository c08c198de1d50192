"""Where a result goes: the array that a caller gives as ``out=``, checked before any work is done.

Memory that the result shares with an input would change the input while it is read.  Whether that
does harm depends on the plan, and the plan on the sizes: so it is refused in every case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symattn.codegen.arrays import as_array
from symattn.codegen.checks import may_share_with_itself, overlap
from symattn.codegen.signature import ArrayInput, MaskInput
from symattn.codegen.steps import axes_text
from symattn.codegen.targets import Target
from symattn.errors import InputError, InputShapeError
from symattn.nodes import Node
from symattn.nodes.arrays import index_order


class Destination:
    """What an array has to be so that a formula's result can be written to it."""

    def __init__(self, result: Node, shaped: Sequence[ArrayInput | MaskInput]) -> None:
        heads = (index.size for index in index_order(result) if index in result.indices)
        self.axes = (*heads, *result.sizes)
        self.ranks = {item.name: len(item.axes) for item in shaped}

    def shape(self, given: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of the result for arrays that were checked."""
        batches = (given[name].shape[: -rank or None] for name, rank in self.ranks.items())
        return (*np.broadcast_shapes(*batches), *(size.value(sizes) for size in self.axes))

    def check(
        self,
        out: Any,
        given: Mapping[str, Any],
        sizes: Mapping[str, int],
        dtype: str,
        target: Target,
    ) -> None:
        """Raise `InputError` or `InputShapeError` unless the result can be written to ``out``."""
        library = target.load()
        array = as_array("out", out, target, library)
        if array.dtype.name != dtype:
            fix = f"{target.alias}.empty(out.shape, {target.alias}.{dtype})"
            raise InputError("out", f"an array of dtype {array.dtype}", fix, f"one of {dtype}")
        shape = self.shape(given, sizes)
        if array.shape != shape:
            problem = f"the result has shape {shape}"
            raise InputShapeError(problem, (("out", axes_text(self.axes), array.shape),))
        flags = array.flags
        if not getattr(flags, "writeable", True):
            raise InputError("out", "a read-only array", "", "one that can be written to")
        if may_share_with_itself(array):
            found = "an array whose entries may share memory, such as a broadcast one"
            raise InputError("out", found, "out.copy()", "memory for every entry")
        for name in self.ranks:
            if overlap(array, given[name], library):
                fix = f"{target.alias}.empty_like(out)"
                raise InputError("out", f"in the memory of {name}", fix, "memory of its own")
