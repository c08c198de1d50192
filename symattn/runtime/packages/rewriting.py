"""The syntax tree of a module, with the decorator put on all functions that have annotations.

The decorator stands innermost, next to the function: `staticmethod`, `property`, `jit` and all
others go over a function that is checked already.  Only a `dataclass` is decorated from above,
since its `__init__` is there only when `dataclass` has made it.

Left alone are lambdas, functions without any annotation, those that say `no_type_check` (with all
that is in them) or `overload`, and those that say `shapecheck` themselves.

The invariant: nothing but decorators and one import is added, each at the place of a line that is
there, so that every traceback, and the source of every function, shows the same lines as before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

HOME, DECORATOR = "symattn.runtime.wrappers", "check_if_declared"

NAME = "_@check_if_declared"
"""What the module calls the decorator: no identifier, so no source can use or shadow it, and with
the `_` that keeps it out of `from … import *`."""

FORMAT = 1
"""Counts up whenever something else is written, so that no older bytecode is taken for it."""

_UNCHECKED = {"no_type_check", "overload", "shapecheck"}
_BLOCKS = ast.stmt | ast.ExceptHandler | ast.match_case
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def with_checks(tree: ast.Module) -> ast.Module:
    """The same tree, changed: with the decorator, and the import of it where it is used.

    >>> tree = ast.parse("def f(x: int): ...\\ndef g(x): ...")
    >>> print(ast.unparse(with_checks(tree)))
    from symattn.runtime.wrappers import check_if_declared as _@check_if_declared
    <BLANKLINE>
    @_@check_if_declared
    def f(x: int):
        ...
    <BLANKLINE>
    def g(x):
        ...
    """
    aliases = _aliases(tree)
    used = False
    pending: list[ast.AST] = [tree]
    while pending:  # not by recursion: `elif` nests as deeply as a ladder is long
        node = pending.pop()
        if isinstance(node, _Function | ast.ClassDef):
            names = [_name(decorator, aliases) for decorator in node.decorator_list]
            if "no_type_check" in names:
                continue
            if isinstance(node, ast.ClassDef):
                used |= _decorate_class(node, names)
            elif _has_annotations(node) and _UNCHECKED.isdisjoint(names):
                keyword = _place(node.lineno, node.col_offset, len("def"))
                node.decorator_list.append(ast.Name(NAME, ast.Load(), **keyword))
                used = True
        pending += _statements(node)
    if used:
        _import_decorator(tree)
    return tree


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """What may hold functions: they stand in statements, never in expressions."""
    return (child for child in ast.iter_child_nodes(node) if isinstance(child, _BLOCKS))


def _has_annotations(function: _Function) -> bool:
    of = function.args
    parameters = (*of.posonlyargs, *of.args, of.vararg, *of.kwonlyargs, of.kwarg)
    annotations = (parameter.annotation for parameter in parameters if parameter is not None)
    return function.returns is not None or any(each is not None for each in annotations)


def _decorate_class(node: ast.ClassDef, names: list[str]) -> bool:
    """Check the construction of a dataclass: right above `dataclass`, below all others."""
    if "dataclass" not in names or not _UNCHECKED.isdisjoint(names):
        return False
    at = names.index("dataclass")
    below = node.decorator_list[at]
    place = _place(below.lineno, below.col_offset, len("dataclass"))
    node.decorator_list.insert(at, ast.Name(NAME, ast.Load(), **place))
    return True


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Names that the module gives to what it imports: `from dataclasses import dataclass as dc`."""
    aliases: dict[str, str] = {}
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ImportFrom):
            aliases |= {each.asname: each.name for each in node.names if each.asname}
        pending += _statements(node)
    return aliases


def _name(decorator: ast.expr, aliases: dict[str, str]) -> str:
    """The last name of a decorator, with or without a call: `dataclass` for `dc.dataclass(…)`."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    if isinstance(decorator, ast.Attribute):
        return decorator.attr
    return aliases.get(decorator.id, decorator.id) if isinstance(decorator, ast.Name) else ""


def _import_decorator(tree: ast.Module) -> None:
    """Import the decorator after the docstring and what is imported from `__future__`."""
    at = 0 if ast.get_docstring(tree, clean=False) is None else 1
    while isinstance(before := tree.body[at], ast.ImportFrom) and before.module == "__future__":
        at += 1
    place = _place(before.lineno, before.col_offset, 0)
    alias = ast.alias(DECORATOR, NAME, **place)
    tree.body.insert(at, ast.ImportFrom(HOME, [alias], 0, **place))


def _place(line: int, column: int, length: int) -> dict[str, int]:
    return {
        "lineno": line,
        "end_lineno": line,
        "col_offset": column,
        "end_col_offset": column + length,
    }
