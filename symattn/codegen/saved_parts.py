"""The parts of a saved module: what generated source needs of symattn, and nothing else.

A module that generated source imports is cut into its statements, each with the comments above it.
Those that are used are copied, and those that they use, under names with an underscore: no input
and no size has such a name.  Invariant: what is copied from needs NumPy alone.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from types import ModuleType

Import = tuple[str, str]
"""A module that a name is imported from, and that name; ``""`` for a module by itself."""

_FOR_CHECKERS = re.compile(r"  # pyright: .*")
_EXAMPLE = re.compile(r'\n\n +>>> .*(?:\n(?! *""").+)*')
_BRACES = re.compile(r"\{\{|\{[^{}]+\}")
_SHORT = re.compile(r'(""".*)\n +"""')


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement, with the comments above it, the names that it defines and those it uses."""

    text: str
    defined: frozenset[str]
    used: frozenset[str]


@dataclass(frozen=True, slots=True)
class Section:
    """A module in pieces: what it is about, and where each name comes from that it imports."""

    title: str
    imports: Mapping[str, Import]
    pieces: tuple[Piece, ...]

    @property
    def borrowed(self) -> dict[str, str]:
        """What is imported from modules of symattn: the name here, and the name there."""
        return {name: there for name, (module, there) in self.imports.items() if _is_ours(module)}

    @property
    def needs(self) -> tuple[ModuleType, ...]:
        """The modules of symattn that are imported from."""
        ours = dict.fromkeys(module for module, _ in self.imports.values() if _is_ours(module))
        return tuple(map(import_module, ours))

    @property
    def imported(self) -> list[Import]:
        """What else is imported, as far as the pieces use it."""
        used = frozenset[str]().union(*(piece.used for piece in self.pieces))
        places = ((name, place) for name, place in self.imports.items() if name in used)
        return [place for _, place in places if not _is_ours(place[0])]


@cache
def section_of(module: ModuleType) -> Section:
    """Return a module in pieces, without examples and without comments for type checkers."""
    source = _FOR_CHECKERS.sub("", inspect.getsource(module))
    return section(_SHORT.sub(r'\1"""', _EXAMPLE.sub("", source)))


def section(source: str) -> Section:
    """Return the source of a module in pieces."""
    tree, lines = ast.parse(source), source.splitlines()
    imports: dict[str, Import] = {}
    pieces: list[Piece] = []
    end = 0
    for statement in tree.body:
        start, end = end, statement.end_lineno or 0
        text = "\n".join(lines[start:end])
        match statement:
            case ast.Import(names):
                imports |= {alias.asname or alias.name: ("", ast.unparse(alias)) for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                imports |= {
                    a.asname or a.name: (module, a.name if _is_ours(module) else ast.unparse(a))
                    for a in names
                }
            case ast.Expr(ast.Constant(str())) if pieces:  # tells about the constant above it
                last = pieces[-1]
                pieces[-1] = Piece(f"{last.text}\n{text}", last.defined, last.used)
            case ast.Expr():
                pass
            case _:
                pieces.append(Piece(text, _defined(statement), names_in(statement)))
    title = (ast.get_docstring(tree) or "").partition("\n")[0].partition(";")[0].rstrip(".")
    return Section(title, imports, tuple(pieces))


def _is_ours(module: str) -> bool:
    return module.startswith("symattn.")


def _defined(statement: ast.stmt) -> frozenset[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return frozenset({name})
        case ast.Try():  # a package that need not be there
            aliases = (a for s in statement.body if isinstance(s, ast.ImportFrom) for a in s.names)
            return frozenset(alias.asname or alias.name for alias in aliases)
        case _:
            named = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            return frozenset(node.id for node in named if isinstance(node.ctx, ast.Store))


def names_in(tree: ast.AST) -> frozenset[str]:
    """Return every name that is read or written somewhere in a tree."""
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def with_needed(modules: Iterable[ModuleType]) -> list[ModuleType]:
    """Return modules, each after those that it imports from."""
    found: dict[ModuleType, None] = {}
    for module in modules:
        found |= dict.fromkeys(with_needed(section_of(module).needs))
        found[module] = None
    return list(found)


def used_pieces(sections: Sequence[Section], names: Iterable[str]) -> list[Section]:
    """Return each section with the pieces that define the names, or what these use."""
    defining = {name: piece for part in sections for piece in part.pieces for name in piece.defined}
    wanted, used = list(names), set[Piece]()
    while wanted:
        piece = defining.get(wanted.pop())
        if piece is not None and piece not in used:
            used.add(piece)
            wanted += piece.used
    return [
        replace(part, pieces=tuple(piece for piece in part.pieces if piece in used))
        for part in sections
    ]


def joined(pieces: Iterable[Piece]) -> str:
    """Return the text of pieces below each other."""
    return "\n".join(piece.text for piece in pieces).strip("\n")


def private(name: str) -> str:
    """Return the name under which something is copied into a saved module."""
    return name if name.startswith("_") else f"_{name}"


def private_names(pieces: Iterable[Piece]) -> dict[str, str]:
    """Return what each name that pieces define is called instead; packages keep theirs."""
    return {
        name: private(name)
        for piece in pieces
        for name in piece.defined
        if not piece.text.lstrip().startswith("try:")
    }


def renamed(source: str, names: Mapping[str, str]) -> str:
    """Return source with other names, but for attributes.

    >>> renamed("one = two.one(one)  # one", {"one": "three"})
    'three = two.one(three)  # one'
    """

    def changed(before: str, token: tokenize.TokenInfo) -> str:
        if token.type == tokenize.NAME and before != ".":
            return names.get(token.string, token.string)
        if token.type == tokenize.STRING and token.string.startswith("f"):
            # One token before Python 3.12, from which on what stands in braces are tokens.
            return _BRACES.sub(
                lambda found: found[0] if found[0] == "{{" else renamed(found[0], names),
                token.string,
            )
        return token.string

    lines = source.splitlines(keepends=True)
    for before, token in reversed(list(_with_the_one_before(source))):
        text = changed(before, token)
        if text != token.string:
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:column] + text + line[token.end[1] :]
    return "".join(lines)


def _with_the_one_before(source: str) -> Iterator[tuple[str, tokenize.TokenInfo]]:
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        yield before, token
        before = token.string


def import_statements(imports: Iterable[Import]) -> list[str]:
    """Return import statements in order: the standard library, an empty line, everything else."""
    names: dict[str, list[str]] = {}
    for module, name in sorted(set(imports), key=_order):
        names.setdefault(module, []).append(name)
    lines = [f"import {name}" for name in names.pop("", [])]
    lines += [f"from {module} import {', '.join(names[module])}" for module in names]
    groups: tuple[list[str], list[str]] = ([], [])
    for line in lines:
        groups[line.split()[1].partition(".")[0] not in sys.stdlib_module_names].append(line)
    standard, others = groups
    return [*standard, "", *others] if standard and others else [*standard, *others]


def _order(item: Import) -> tuple[str, int, str]:
    """Return a key by which constants come first, then classes, then functions."""
    module, name = item
    kind = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return module, kind, name
