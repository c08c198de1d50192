"""`prove`: are two formulas equal for all sizes and all inputs?  Proved, refuted or undecided.

The verdict "proved" comes from the normal form alone, and is shown only after an evaluator that
shares no code with it has agreed at random points; "refuted" comes from that evaluator alone.  If
neither has an answer the verdict is "undecided", with the reason.  Steps are sought last, and never
change a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from symattn.errors import InternalError, ShapeError, SymbolClashError
from symattn.nodes.algebra import MatrixSum, Negated
from symattn.nodes.core import Agreement, Node, as_matrix
from symattn.nodes.fixes import Candidate, declared_equal, facts, smallest_fix
from symattn.nodes.given import in_force
from symattn.nodes.program import Program
from symattn.notation.code import brief
from symattn.notation.presets import chosen_preset
from symattn.notation.text import text, text_shape
from symattn.proof.counterexample import Difference, UndefinedEverywhere, find_difference
from symattn.proof.results import SAME_INDEX_FORM, Proof, compared, entry_forms
from symattn.proof.steps import Step, derive
from symattn.tags import Relations

# Points at which the evaluator has to agree before "proved" is shown, and those it looks for a
# difference at.
_GUARD = 3
_SEARCH = 24


def prove(lhs: Any, rhs: Any, *, given: Mapping[Any, Any] | None = None) -> Proof:
    """Decide whether two formulas are equal for all sizes ≥ 1 and all finite real inputs.

    >>> import symattn as sa
    >>> d_k, d_v, n, m = sa.dims("d_k d_v n m")
    >>> Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
    >>> S = K.T @ Q
    >>> sa.prove((V @ sa.softmax(S, axis=0)).T, sa.softmax(Q.T @ K, axis=1) @ V.T).verdict
    'proved'
    >>> sa.prove(V @ sa.softmax(S, axis=0), V @ sa.softmax(S, axis=1)).verdict
    'refuted'

    The result is true as a condition only if it is proved.  ``given`` says what symbols of either
    side stand for (``{Q_row: Q.T}``).  Two layouts of one catalogue entry are compared through
    their twins, which the result notes.  Both sides may be expressions, programs (their results) or
    formulas of the catalogue.

    Raises `ShapeError` if the shapes differ, and `SymbolClashError` if one name stands for two
    symbols and ``given`` does not say how they relate.
    """
    left, right, note = _two_sides(lhs, rhs)
    if given:
        rule = {
            as_matrix(key, "given="): as_matrix(value, "given=") for key, value in given.items()
        }
        left, right = left.xreplace(rule), right.xreplace(rule)
    relations = left.given.merge(right.given).merge(in_force())
    relations = _one_shape(left, right, relations)
    _one_meaning_a_name(left, right, relations)
    found = compared((left, right), relations)
    if found.equal:
        _guard(left, right, relations)
        steps = _steps(left, right)
        return Proof(
            "proved", left, right, relations, steps=steps, conditions=found.conditions, note=note
        )
    difference = find_difference(left, right, relations, attempts=_SEARCH)
    if isinstance(difference, Difference):
        return Proof(
            "refuted",
            left,
            right,
            relations,
            sizes=difference.sizes,
            inputs=difference.inputs,
            scalars=difference.scalars,
            entry=difference.entry,
            lhs_value=difference.left_value,
            rhs_value=difference.right_value,
            note=note,
        )
    if isinstance(difference, UndefinedEverywhere):
        numbers = f"at each of {difference.points} random points one side is undefined"
    else:
        numbers = f"both sides agree on {difference.instances} random instances"
    reason = f"{found.reason}; {numbers}"
    return Proof(
        "undecided", left, right, relations, conditions=found.conditions, reason=reason, note=note
    )


def _two_sides(lhs: Any, rhs: Any) -> tuple[Node, Node, str]:
    """Return both sides as expressions; two layouts of one entry through their twins."""
    left, right = _expression(lhs), _expression(rhs)
    layouts = [getattr(side, "layout", None) for side in (lhs, rhs)]
    if None in layouts or layouts[0] == layouts[1]:
        return left, right, ""
    twins = {**getattr(lhs, "twins", {}), **getattr(rhs, "twins", {})}
    used = {s: twins[s] for s in (*left.inputs(), *right.inputs()) if s in twins}
    if layouts[0] == "row":
        left, right = left.xreplace(used), right.T
    else:
        left, right = left.T, right.xreplace(used)
    said = ", ".join(f"{text(row)} is {text(column)}" for row, column in used.items())
    return left, right, f"the layouts are transposes of each other; in the row layout {said}"


def _expression(side: Any) -> Node:
    if isinstance(side, Program):
        return side.result
    return as_matrix(getattr(side, "expr", side), "prove")


def _one_shape(left: Node, right: Node, relations: Relations) -> Relations:
    """Return the relations in force if both sides have one shape, or raise `ShapeError`."""
    agreement = Agreement(relations, relations)
    for axis, name in enumerate(("rows", "columns")):
        if agreement(left.sizes[axis], right.sizes[axis]):
            continue
        written = f"{brief(left)} = {brief(right)}"
        clash = left.sizes[axis], right.sizes[axis]
        raise ShapeError(
            written,
            facts((left, right)),
            f"the {name} of the left side are {clash[0]}, "
            f"but those of the right side are {clash[1]}",
            *smallest_fix(_fixes(left, right, axis)),
        )
    return relations


def _fixes(left: Node, right: Node, axis: int) -> Iterable[Candidate]:
    for candidate in (right.T, left.T):
        other = left if candidate.matrices[0] is right else right

        def build(candidate: Node = candidate, other: Node = other) -> Node:
            return _beside(candidate, other)

        yield Candidate(build, remark=" in place of that side")
    clash = left.sizes[axis], right.sizes[axis]
    yield from declared_equal((clash,), lambda: _beside(left, right))


def _beside(side: Node, other: Node) -> Node:
    """Return a side if the other has the same shape, or raise `ShapeError`."""
    MatrixSum(side, Negated(other))
    return side


def _one_meaning_a_name(left: Node, right: Node, relations: Relations) -> None:
    """Raise `SymbolClashError` if a name stands for two symbols, sizes read under the relations."""
    preset = chosen_preset(None, left)
    meanings: dict[str, dict[object, str]] = {}
    for side in (left, right):
        for symbol in side.inputs():
            sizes = tuple(relations.rewrite(size) for size in symbol.sizes)
            shape = text_shape(symbol.label, symbol.sizes, preset)
            meanings.setdefault(symbol.label, {})[sizes] = shape
        for scalar in side.scalars():
            kind = "positive scalar" if scalar.is_positive else "scalar"
            meanings.setdefault(scalar.name, {})[kind] = f"a {kind}"
        for tag in side.tags:
            meanings.setdefault(tag, {})["tag"] = "a tag"
    for name, found in meanings.items():
        if len(found) > 1:
            raise SymbolClashError(
                name,
                list(found.values()),
                "rename one, or say how they relate with given={symbol: expression}",
            )


def _guard(left: Node, right: Node, relations: Relations) -> None:
    """Ask the independent evaluator before "proved" is shown."""
    difference = find_difference(left, right, relations, attempts=_GUARD)
    if isinstance(difference, Difference):
        raise InternalError(
            f"the normal form calls {brief(left)} and {brief(right)} equal, but at sizes "
            f"{dict(difference.sizes)} entry {difference.entry} they are "
            f"{difference.left_value} and {difference.right_value}"
        )


def _steps(left: Node, right: Node) -> tuple[Step, ...]:
    if left == right:
        return ()
    found = derive(left, right)
    if found is not None:
        return found
    return (Step(SAME_INDEX_FORM, left, right, entry_forms(left, right), (), left, right),)
