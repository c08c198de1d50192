"""Functions of every entry: what their rows in the table state, as laws."""

from __future__ import annotations

from symattn.meaning.functions import FUNCTIONS
from symattn.nodes.algebra import Negated
from symattn.nodes.core import Node
from symattn.nodes.elementwise import Elementwise, exp, tanh
from symattn.proof.laws.law import Law, laws_of
from symattn.proof.laws.samples import A

FUNCTION_LAWS: dict[str, Law] = {}
_law = laws_of(FUNCTION_LAWS)


@_law(
    "odd function of a negation",
    tanh(-A),
    -tanh(A),
    mistake=(exp(-A), -exp(A)),
    reason="an odd function changes sign with its argument",
    sound="f(-x) = -f(x), for the functions whose row says that they are odd",
    ends="a minus sign moves outwards",
)
def _odd(node: Node) -> Node | None:
    if not isinstance(node, Elementwise) or not isinstance(node.matrices[0], Negated):
        return None
    row = FUNCTIONS.get(node.function)
    if row is None or not row.odd:
        return None
    return Negated(node.rebuilt(lambda operand: operand.matrices[0]))
