"""Strips and blocks so small that a few tokens are several of each."""

import pytest

from symattn.codegen import strips


def in_small_blocks(patch: pytest.MonkeyPatch, tile: int = 24, rows: int = 4) -> None:
    """Let a block have so many scores, and a strip so many queries."""
    patch.setattr(strips, "TILE", tile)
    patch.setattr(strips, "ROWS", rows)
    patch.setattr(strips, "FEW_ROWS", max(1, rows // 2))
