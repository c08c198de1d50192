"""Views of a formula: one entry, all of them, each position, each step, as einsum.

A view says what a formula means in another way of writing; it computes nothing and proves nothing.

* `operands`: what a view is a view of; `view`: how views print;
* `sums`: one entry as sums, in SymPy, with the `terms` that SymPy lacks;
* `vectors`: rows, columns and entries in the rows and columns of the matrices, one rule a kind of
  writing; `written_out` puts them into a matrix, `by_position` into the steps of attention;
* `line_shapes`: the lines of a computation, with shapes;
* `contractions`: index forms as `einsum` lines, which `einsums` puts into a program.
"""

from symattn.views.by_position import per_position
from symattn.views.einsums import einsum
from symattn.views.line_shapes import shapes
from symattn.views.sums import entry
from symattn.views.written_out import entries

__all__ = ["einsum", "entries", "entry", "per_position", "shapes"]
