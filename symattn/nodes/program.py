"""Programs: named lines, each a formula, the last of which is the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from symattn.errors import OperationRefusedError, SymbolClashError, UnknownNameError
from symattn.nodes.algebra import MatrixProduct, MatrixSum
from symattn.nodes.core import Node, as_matrix
from symattn.nodes.families import symbol_of
from symattn.nodes.given import Given
from symattn.notation.code import brief
from symattn.notation.displays import latex_lines
from symattn.notation.names import check_name
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.rows import Printable
from symattn.notation.terminal import text
from symattn.tags import nearest


class Program:
    """An ordered list of named lines with a result.

    >>> import symattn as sa
    >>> d, n, m = sa.dims("d n m")
    >>> Q, K = sa.matrix("Q", d, n), sa.matrix("K", d, m)
    >>> S = K.T @ Q
    >>> p = sa.Program(S=S, P=sa.softmax(S, axis=0))
    >>> p
    S = KᵀQ
    P = Softmax(S)
    >>> p.result.shape
    (m, n)

    Names that are no identifiers are given in a mapping: ``Program({"W^Q": …})``.  A later
    occurrence, structurally equal, of an earlier line is that line: it is printed by its name and
    computed once.  Lines are formulas; nothing is evaluated.

    Raises `SymbolClashError` if one of several lines has the name of another or of an input,
    `OperationRefusedError` if there is no line.
    """

    def __init__(self, lines: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        if lines is not None and not isinstance(lines, Mapping):
            raise OperationRefusedError(
                f"Program({brief(lines)})", "give a mapping {name: formula}"
            )
        checked: dict[str, Node] = {}
        for name, line in (*(lines or {}).items(), *named.items()):
            label = check_name(name)
            if label in checked:
                raise SymbolClashError(label, ("a line", "a later line"), "give each its own name")
            checked[label] = as_matrix(line, f"line {label}")
        if not checked:
            raise OperationRefusedError("a program without lines", "give at least one named line")
        # A single formula that nothing else refers to may have any name.
        for line in checked.values() if len(checked) > 1 else ():
            inputs: dict[str, Any] = {s.label: s for s in line.inputs()}
            inputs |= {s.name: s for s in line.scalars()}
            for label in inputs.keys() & checked.keys():
                if checked[label] != inputs[label]:
                    meanings = ("a line", f"an input of {brief(line)}")
                    raise SymbolClashError(label, meanings, "give each its own name")
        self._lines = MappingProxyType(checked)

    @property
    def lines(self) -> Mapping[str, Node]:
        """The lines by name, in order, each written out in the inputs."""
        return self._lines

    @property
    def named_lines(self) -> Mapping[str, Node]:
        """The lines by name, each in terms of the names of those before it.

        >>> import symattn as sa
        >>> X, W = sa.matrix("X", "n", "d"), sa.matrix("W", "d", "d")
        >>> p = sa.Program(Y=X @ W, Z=X @ W @ W.T + X)
        >>> print(p.named_lines["Z"])
        Y @ W.T + X
        """
        written: dict[str, Node] = {}
        names: dict[Node, Node] = {}
        symbols = self.line_symbols
        for name, line in self._lines.items():
            written[name] = _in_names(line, names)
            names.setdefault(line, symbols[name])
        return MappingProxyType(written)

    @property
    def line_symbols(self) -> Mapping[str, Node]:
        """The symbol that stands for each line: its name, with the indices that are free in it."""
        return MappingProxyType({name: symbol_of(name, line) for name, line in self.lines.items()})

    @property
    def result(self) -> Node:
        """The last line."""
        return self._lines[next(reversed(self._lines))]

    def latex(
        self,
        preset: Preset | str | None = None,
        *,
        highlight: Sequence[Printable] | Printable = (),
        dialect: str = "latex",
    ) -> str:
        r"""Return the lines as an ``aligned`` block of LaTeX.

        >>> import symattn as sa
        >>> X, W = sa.matrix("X", "n", "d"), sa.matrix("W", "d", "d")
        >>> print(sa.Program(Y=X @ W, P=sa.softmax(X @ W, axis=1)).latex())
        \begin{aligned}
        Y &= XW \\
        P &= \mathrm{softmax}(Y)
        \end{aligned}
        """
        chosen = chosen_preset(preset, self.result)
        symbols = self.line_symbols
        lines = [(symbols[name], line) for name, line in self.named_lines.items()]
        return latex_lines(lines, chosen, highlight, dialect)

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex(dialect='jupyter')}$"

    def __getitem__(self, name: str) -> Node:
        try:
            return self._lines[check_name(name)]
        except KeyError:
            raise UnknownNameError("line", name, nearest(name, self._lines)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return list(self._lines.items()) == list(other._lines.items())

    def __hash__(self) -> int:
        return hash(tuple(self._lines.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (dict(self._lines),)

    def __repr__(self) -> str:
        return text(self)


def _in_names(line: Node, names: Mapping[Node, Node]) -> Node:
    """Return a line with every part that has a name written as that name."""
    changed: dict[Node, Node] = {}
    for node in line.walk():
        changed[node] = names.get(node) or _shortened(node, names).rebuilt(
            lambda part: changed.get(part, part)
        )
    return changed[line]


def _shortened(node: Node, names: Mapping[Node, Node]) -> Node:
    """Return a flat chain with its longest beginning that has a name written as that name.

    ``S @ W`` is kept as the product of the factors of S and of W, so S is no part of it.
    """
    if not isinstance(node, (MatrixProduct, MatrixSum)):
        return node
    beginnings = [
        (len(named.operands), symbol)
        for named, symbol in names.items()
        if type(named) is type(node) and node.operands[: len(named.operands)] == named.operands
    ]
    if not beginnings:
        return node
    length, symbol = max(beginnings, key=lambda beginning: beginning[0])
    given = (argument for argument in node.args if isinstance(argument, Given))
    return type(node)(symbol, *node.operands[length:], *given)
