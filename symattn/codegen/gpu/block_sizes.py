"""How large the blocks of a fused kernel are, and how many threads work on one: a small table.

The rows of one kind stand in the order in which they are tried: the first for which no register is
spilled to memory is taken, and it depends on the score how many registers that needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from symattn.errors import NotSupportedError

FEWEST_QUERIES = 16
"""Of a block in any row."""

WIDEST = 256
"""The largest size of a head, of queries and keys or of values, that there is a row for."""


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """Queries and keys of a block, keys of a block in a second pass, warps and stages."""

    queries: int
    keys: int
    few_keys: int
    warps: int
    stages: int


def block_sizes(width: int, itemsize: int, capability: int) -> tuple[BlockSizes, ...]:
    """Return what to try for the largest (padded) size of a head, and the bytes of a number.

    >>> block_sizes(64, 2, 90)[0]
    BlockSizes(queries=128, keys=128, few_keys=16, warps=8, stages=2)
    """
    for least, bytes_each, widest, rows in _ROWS:
        if capability >= least and itemsize == bytes_each and width <= widest:
            return rows
    raise NotSupportedError(
        f"heads of {width} numbers, of {itemsize} bytes each, in one kernel for compute "
        f"capability {capability // 10}.{capability % 10}"
    )


_WIDE_90 = (
    BlockSizes(128, 128, 16, 8, 2),
    BlockSizes(128, 64, 16, 8, 3),
    BlockSizes(64, 64, 16, 8, 2),
)
_WIDE_80 = BlockSizes(128, 64, 16, 8, 2), BlockSizes(64, 64, 16, 8, 2)

_SINGLE_128 = BlockSizes(64, 32, 16, 8, 2), BlockSizes(32, 32, 16, 8, 1)
"""The second one fits where a block may have 99 KiB, as on devices of 8.6, 8.9 and 12.0."""

_ROWS = (
    (90, 2, 128, _WIDE_90),
    (90, 2, 256, (BlockSizes(64, 64, 32, 8, 2), BlockSizes(64, 32, 32, 8, 2))),
    (90, 4, 64, (BlockSizes(128, 32, 16, 8, 2), BlockSizes(64, 32, 16, 4, 2))),
    (90, 4, 128, _SINGLE_128),
    (90, 4, 256, (BlockSizes(32, 16, 16, 8, 1),)),
    (80, 2, 128, _WIDE_80),
    (80, 2, 256, (BlockSizes(64, 32, 16, 8, 2), BlockSizes(32, 32, 16, 8, 2))),
    (80, 4, 64, (BlockSizes(64, 32, 16, 4, 2),)),
    (80, 4, 128, _SINGLE_128),
    (80, 4, 256, (BlockSizes(32, 16, 16, 8, 1),)),
)
"""The least compute capability, the bytes of a number, the largest size of a head, what to try."""
