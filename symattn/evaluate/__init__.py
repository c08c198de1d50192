"""Numbers: a formula as written, matrix by matrix; its meaning, entry by entry; points to compare at."""

from symattn.evaluate.arithmetic import (
    DIGITS,
    Arithmetic,
    Floats,
    UndefinedPointError,
    exact,
)
from symattn.evaluate.loops import entry_value, table
from symattn.evaluate.matrices import evaluate
from symattn.evaluate.points import (
    Entries,
    Rows,
    random_inputs,
    random_scalars,
    random_sizes,
    sizes_in,
)

__all__ = [
    "DIGITS",
    "Arithmetic",
    "Entries",
    "Floats",
    "Rows",
    "UndefinedPointError",
    "entry_value",
    "evaluate",
    "exact",
    "random_inputs",
    "random_scalars",
    "random_sizes",
    "sizes_in",
    "table",
]
