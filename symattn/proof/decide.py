"""`prove`: are two formulas equal for all sizes and all inputs?  Proved, refuted or undecided.

The verdict "proved" comes from the normal form alone, and is shown only after an evaluator that
shares no code with it has agreed at random points; "refuted" comes from that evaluator alone.  If
neither has an answer the verdict is "undecided", with the reason.  Steps are sought last, and never
change a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from symattn.errors import InternalError, NotAnOperandError, ShapeError, SymbolClashError
from symattn.nodes.algebra import MatrixSum, Negated, Transposed
from symattn.nodes.core import Agreement, Node, as_matrix
from symattn.nodes.depth import shallow_enough
from symattn.nodes.finite import as_finite
from symattn.nodes.fixes import Candidate, declared_equal, facts, smallest_fix
from symattn.nodes.given import in_force
from symattn.nodes.program import Program
from symattn.notation.code import brief
from symattn.notation.layouts import layout_of
from symattn.notation.presets import chosen_preset
from symattn.notation.terminal import text_shape
from symattn.proof.counterexample import (
    Difference,
    NoDifference,
    UndefinedEverywhere,
    find_difference,
)
from symattn.proof.results import SAME_INDEX_FORM, Proof, compared, entry_forms
from symattn.proof.steps import Step, derive
from symattn.tags import Relations, is_at_least_one

# Points at which the evaluator has to agree before "proved" is shown, and those it looks for a
# difference at.
_GUARD = 3
_SEARCH = 24


@shallow_enough("proving")
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

    Raises `ShapeError` if the shapes differ, `SymbolClashError` if one name stands for two symbols
    and ``given`` does not say how they relate, or if ``given`` brings in a free index with the
    letter of one that is bound, and `MinusInfinityError` for a side that ends with an additive
    mask.
    """
    left, right, twins, row = _two_sides(lhs, rhs)
    if given is not None:
        rule = _checked(given)
        left, right = (as_finite(side.xreplace(rule), "prove") for side in (left, right))
    relations = left.given.merge(right.given).merge(in_force())
    if left == right:
        return Proof(
            "proved", left, right, relations, twins=twins, row=row, **_alone(left, relations)
        )
    _require_one_shape(left, right, relations, f"{brief(left)} = {brief(right)}")
    _one_meaning_a_name(left, right, relations)
    found = compared((left, right), relations)
    conditions = (*_conditions_on_sizes((left, right), relations), *found.conditions)
    if found.equal and _guarded(left, right, relations):
        steps = _steps(left, right)
        return Proof(
            "proved", left, right, relations, steps, conditions=conditions, twins=twins, row=row
        )
    difference = find_difference(left, right, relations, attempts=_SEARCH, small=True)
    if isinstance(difference, Difference):
        return Proof(
            "refuted",
            left,
            right,
            relations,
            sizes=difference.sizes,
            inputs=difference.inputs,
            scalars=difference.scalars,
            indices=difference.indices,
            entry=difference.entry,
            lhs_value=difference.left_value,
            rhs_value=difference.right_value,
            note=_strangers(left, right),
            twins=twins,
            row=row,
        )
    if isinstance(difference, UndefinedEverywhere):
        numbers = f"at each of {difference.points} random points one side is undefined"
    else:
        numbers = f"both sides agree on {difference.instances} random instances"
    reason = f"{found.reason or 'the normal forms agree'}; {numbers}"
    return Proof(
        "undecided",
        left,
        right,
        relations,
        conditions=conditions,
        reason=reason,
        twins=twins,
        row=row,
    )


def _two_sides(lhs: Any, rhs: Any) -> tuple[Node, Node, dict[Node, Node], Node | None]:
    """Return both sides, what twins stand for, and the side that is in row layout, if one is.

    Two layouts are compared through the twins that a formula of the catalogue or a translation
    brings: the symbols of the row side are replaced, and the column side is transposed.
    """
    left, right = _expression(lhs), _expression(rhs)
    twins = {**getattr(lhs, "twins", {}), **getattr(rhs, "twins", {})}
    layouts = [getattr(side, "layout", None) or layout_of(_expression(side)) for side in (lhs, rhs)]
    if not twins or sorted(map(str, layouts)) != ["column", "row"]:
        return left, right, {}, None
    row = left if layouts[0] == "row" else right
    used = {symbol: twins[symbol] for symbol in row.symbols() if symbol in twins}
    replaced = row.xreplace(used)
    return (replaced, right.T, used, row) if row is left else (left.T, replaced, used, row)


def _checked(given: Any) -> dict[Node, Node]:
    """Return what symbols stand for, each of the shape of its symbol."""
    if not isinstance(given, Mapping):
        raise NotAnOperandError(brief(given), "given= takes a mapping {symbol: expression}")
    rule = {as_matrix(key, "given="): as_matrix(value, "given=") for key, value in given.items()}
    for symbol, value in rule.items():
        relations = symbol.given.merge(value.given).merge(in_force())
        _require_one_shape(symbol, value, relations, f"given={{{brief(symbol)}: {brief(value)}}}")
    return rule


def _conditions_on_sizes(sides: Iterable[Node], relations: Relations) -> list[str]:
    """Return what the sizes have to satisfy: "h divides d_model", "n-1 ≥ 1"."""
    sizes = dict.fromkeys(
        relations.rewrite(size) for side in sides for node in side.walk() for size in node.extents
    )
    exact = dict.fromkeys(pair for size in sizes for pair in size.assumptions)
    return [
        *(f"{divisor} divides {dividend}" for divisor, dividend in exact),
        *(f"{size} ≥ 1" for size in sizes if not is_at_least_one(size)),
    ]


def _alone(side: Node, relations: Relations) -> dict[str, Any]:
    """Return what has to hold for one formula to be defined, as far as it can be told."""
    found = compared((side,), relations)
    return {
        "conditions": (*_conditions_on_sizes((side,), relations), *found.conditions),
        "note": "" if found.equal else f"what it divides by is not listed: {found.reason}",
    }


def _strangers(left: Node, right: Node) -> str:
    """Return a hint where each side has inputs that the other does not know."""
    ours, theirs = (dict.fromkeys(side.symbols()) for side in (left, right))
    only = [
        [brief(s) for s in one if s not in other] for one, other in ((ours, theirs), (theirs, ours))
    ]
    if not all(only):
        return ""
    names = [", ".join(names) for names in only]
    return (
        f"{names[0]} only on the left, {names[1]} only on the right: "
        "given={symbol: expression} says how they relate"
    )


def _expression(side: Any) -> Node:
    if isinstance(side, Program):
        side = side.result
    return as_finite(as_matrix(getattr(side, "expr", side), "prove"), "prove")


def _require_one_shape(left: Node, right: Node, relations: Relations, written: str) -> None:
    """Raise `ShapeError` unless both sides have one shape under the relations."""
    agreement = Agreement(relations, relations)
    for axis, name in enumerate(("rows", "columns")):
        if agreement(left.sizes[axis], right.sizes[axis]):
            continue
        raise ShapeError(
            written,
            facts((left, right)),
            f"the {name} of the left side are {left.sizes[axis]}, "
            f"but those of the right side are {right.sizes[axis]}",
            *smallest_fix(_fixes(left, right, axis)),
        )


def _fixes(left: Node, right: Node, axis: int) -> Iterable[Candidate]:
    """Yield each side turned over, then the two sizes declared equal."""
    for side, other in ((right, left), (left, right)):
        turned = side.matrices[0] if isinstance(side, Transposed) else side.T

        def build(turned: Node = turned, other: Node = other) -> Node:
            return _beside(turned, other)

        yield Candidate(build, remark=f" in place of {brief(side)}")
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
        for array in side.booleans():
            sizes = tuple(relations.rewrite(size) for size in array.sizes)
            shape = f"booleans ({', '.join(map(str, array.sizes))})"
            meanings.setdefault(array.label, {})[sizes] = shape
        for scalar in side.scalars():
            kind = "positive scalar" if scalar.is_positive else "scalar"
            meanings.setdefault(scalar.name, {})[kind] = f"a {kind}"
        for index in side.indices:
            meanings.setdefault(index.name, {})[index] = f"an index over {index.size}"
        for tag in side.tags:
            meanings.setdefault(tag, {})["tag"] = "a tag"
    for name, found in meanings.items():
        if len(found) > 1:
            raise SymbolClashError(
                name,
                list(found.values()),
                "rename one, or say how they relate with given={symbol: expression}",
            )


def _guarded(left: Node, right: Node, relations: Relations) -> bool:
    """Ask the independent evaluator before "proved" is shown; it has to have had values."""
    found = find_difference(left, right, relations, attempts=_GUARD)
    if isinstance(found, Difference):
        raise InternalError(
            f"the normal form calls {brief(left)} and {brief(right)} equal, but at sizes "
            f"{dict(found.sizes)} entry {found.entry} they are "
            f"{found.left_value} and {found.right_value}"
        )
    return isinstance(found, NoDifference)


def _steps(left: Node, right: Node) -> tuple[Step, ...]:
    if left == right:
        return ()
    found = derive(left, right)
    if found is not None:
        return found
    return (Step(SAME_INDEX_FORM, left, right, entry_forms(left, right), (), left, right),)
