"""Numbers: a formula as written, matrix by matrix; its meaning, by loops; points to compare at."""

from symattn.errors import UndefinedPointError
from symattn.evaluate.arithmetic import BOUNDED_FLOATS, DIGITS, FLOATS, Arithmetic, exact
from symattn.evaluate.loops import entry_value, table
from symattn.evaluate.matrices import evaluate, evaluate_together
from symattn.evaluate.points import (
    Entries,
    Rows,
    random_indices,
    random_inputs,
    random_scalars,
    random_sizes,
    sizes_in,
)

__all__ = [
    "BOUNDED_FLOATS",
    "DIGITS",
    "Arithmetic",
    "Entries",
    "FLOATS",
    "Rows",
    "UndefinedPointError",
    "entry_value",
    "evaluate",
    "evaluate_together",
    "exact",
    "random_indices",
    "random_inputs",
    "random_scalars",
    "random_sizes",
    "sizes_in",
    "table",
]
