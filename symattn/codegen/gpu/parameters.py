"""The parameters of a fused kernel, in their order: what its source and its host agree on.

Arrays are ``O`` (the result), ``L`` (log Σ exp), ``V`` (values), ``X0``, ``X1``, … (what scores are
computed from) and ``M0``, … (boolean arrays of a mask).  An array has a stride for each of three
leading axes, and of its rows (``_r``) and columns (``_c``), in elements; one that is 1 is known
when a kernel is compiled, so that what lies side by side is read at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEADING = 3
"""The leading axes that a kernel goes through; more are looped over by the host."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The names: ``constants`` are known when a kernel is compiled, the others in a call."""

    arrays: tuple[str, ...]
    numbers: tuple[str, ...]
    integers: tuple[str, ...]
    constants: tuple[str, ...]

    @property
    def strides(self) -> tuple[str, ...]:
        """Those of all arrays."""
        return tuple(f"{name}_{axis}" for name in self.arrays for axis in axes_of(name))

    @property
    def lines(self) -> tuple[tuple[str, ...], ...]:
        """All in their order, as they stand in the source."""
        strides = (tuple(f"{name}_{axis}" for axis in axes_of(name)) for name in self.arrays)
        groups = (self.arrays, self.numbers, self.integers, *strides)
        return tuple(group for group in groups if group)


def axes_of(array: str) -> str:
    """Return the endings of an array's strides."""
    return "012" if array == "L" else "012rc"


def parameters(
    *, operands: int, masks: int, dots: int, sums: int, numbers: int, counts: int
) -> Parameters:
    """Return the parameters of a kernel with so many operands, masks, inner products and so on.

    >>> found = parameters(operands=2, masks=0, dots=1, sums=0, numbers=1, counts=0)
    >>> found.arrays, found.numbers, found.integers
    (('O', 'L', 'V', 'X0', 'X1'), ('c0',), ('n', 'm', 'size_1', 'size_2'))
    """
    widths = [f"D{k}{ending}" for k in range(dots) for ending in ("", "_WIDE")]
    return Parameters(
        arrays=("O", "L", "V", *_numbered("X", operands), *_numbered("M", masks)),
        numbers=_numbered("c", numbers),
        integers=(*_numbered("n", counts), "n", "m", "size_1", "size_2", *_numbered("E", sums)),
        constants=(*widths, "DV", "DV_WIDE", "BM", "BN", "BS", "SUMS", "PRECISION"),
    )


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}{k}" for k in range(count))


def padded(size: int) -> int:
    """Return the size of an axis in a kernel: a power of two, and at least 16.

    >>> padded(0), padded(64), padded(80)
    (16, 64, 128)
    """
    return max(16, 1 << max(0, size - 1).bit_length())


def in_order(names: Parameters) -> Sequence[str]:
    """Return all names as the kernel takes them."""
    return [*(name for line in names.lines for name in line), *names.constants]
