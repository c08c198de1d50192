"""An expression of one array as statements that work in its memory."""

from __future__ import annotations

import ast

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}
_COMMUTE = (ast.Add, ast.Mult)


def in_place(expression: str, name: str, spare: str = "") -> list[str] | None:
    """Return the statements after which an array holds an expression of it, one after another.

    >>> in_place("(np.tanh(s / 2) + 1) / 2", "s")
    ['s /= 2', 'np.tanh(s, out=s)', 's += 1', 's /= 2']

    ``spare`` names memory for one more array, for a product or sum with what is computed from it:

    >>> in_place("s * np.exp(-1 * s)", "s", spare="t")
    ['t = -1 * s', 'np.exp(t, out=t)', 's *= t', 'del t']

    None if it reads the array more often, or does with it what has no such statement.
    """
    tree = ast.parse(expression, mode="eval").body
    if spare and isinstance(tree, ast.BinOp) and isinstance(tree.op, _COMMUTE):
        parts = {_is(part, name): part for part in (tree.left, tree.right)}
        beside = _steps(parts[False], name, spare) if len(parts) == 2 else None
        if beside:
            return [*beside, f"{name} {_OPERATORS[type(tree.op)]}= {spare}", f"del {spare}"]
    return _steps(tree, name, name)


def _steps(tree: ast.expr, name: str, memory: str) -> list[str] | None:
    """Return the statements that write an expression to some memory: the array's own, or new."""
    if _is(tree, name):
        return []
    match tree:
        case ast.Call(ast.Attribute(), arguments, []):
            parts = arguments
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            parts = [left, right]
        case _:
            return None
    readers = [part for part in parts if _reads(part, name)]
    before = _steps(readers[0], name, memory) if len(readers) == 1 else None
    if before is None:
        return None
    if not before and memory != name:
        return [f"{memory} = {ast.unparse(tree)}"]
    if isinstance(tree, ast.Call):
        given = [memory if part in readers else ast.unparse(part) for part in parts]
        return [*before, f"{ast.unparse(tree.func)}({', '.join(given)}, out={memory})"]
    assert isinstance(tree, ast.BinOp)
    if tree.right in readers and not isinstance(tree.op, _COMMUTE):
        return None
    (other,) = (part for part in parts if part not in readers)
    return [*before, f"{memory} {_OPERATORS[type(tree.op)]}= {ast.unparse(other)}"]


def _is(tree: ast.expr, name: str) -> bool:
    return isinstance(tree, ast.Name) and tree.id == name


def _reads(tree: ast.expr, name: str) -> bool:
    return any(_is(part, name) for part in ast.walk(tree) if isinstance(part, ast.expr))
