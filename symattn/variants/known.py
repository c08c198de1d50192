"""A formula of the catalogue: what it is called, where it comes from, and what it says.

`Formula` is what `sa.formula(name, layout=...)` gives.  It holds the lines of its program and its
inputs in calling order; everything else follows from them.  Its two layouts are tied by ``twins``:
how each matrix of the row layout comes from the one of the column layout, which is what makes a
proof that both say the same possible (``Q_row = Qᵀ``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from symattn.nodes import BooleanInput, Family, Node, Program, Scalar
from symattn.nodes.inputs import InputMatrix
from symattn.nodes.sizes import Dim
from symattn.notation.presets import Preset
from symattn.notation.terminal import text
from symattn.tags import Relations
from symattn.variants.attend import Operands
from symattn.variants.signatures import attention_latex, attention_text, score_latex, score_text

Input = InputMatrix | Family
"""What a formula is given: a matrix, a vector, or one matrix for each head."""


@dataclass(frozen=True, eq=False, repr=False)
class Formula:
    """A formula of the catalogue in one layout.

    >>> import symattn as sa
    >>> f = sa.formula("scaled_dot_product", layout="row")
    >>> f
    scaled_dot_product:row  softmax(Q Kᵀ / √d_k) V
    >>> [matrix.name for matrix in f.inputs], f.dims
    (['Q', 'K', 'V'], (n, d_k, m, d_v))

    ``operands`` are its queries, keys and values, which may be made from the inputs, ``function``
    is what it does with them, in matrices named Q, K and V, and ``called`` the name of that;
    ``context`` are the weighted sums of the values, those of several heads one after another;
    ``source`` is the paper, section and equation; ``pairs`` is what ``twins`` shows, and
    ``options`` what was chosen where there is a choice.
    """

    name: str
    title: str
    source: str
    layout: str
    inputs: tuple[Input, ...]
    operands: Operands
    function: Program
    program: Program
    pairs: tuple[tuple[Node, Node], ...]
    context: Node
    called: str = "Attention"
    options: tuple[tuple[str, bool], ...] = ()

    @property
    def expr(self) -> Node:
        """The whole formula as one expression."""
        return self.program.result

    @property
    def scores(self) -> Node:
        """The scores, before the softmax."""
        return self.program["S"]

    @property
    def weights(self) -> Node:
        """The attention weights: the softmax of the scores."""
        return self.program["P"]

    @property
    def lines(self) -> Mapping[str, Node]:
        """Each line of the program in terms of the lines before it, by their names.

        >>> import symattn as sa
        >>> for name, line in sa.formula("self_attention").lines.items():
        ...     print(name, "=", sa.text(line))
        Q = W^Q X
        K = W^K X
        V = W^V X
        S = KᵀQ
        P = Softmax(S)
        O = VP
        """
        return self.program.named_lines

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Every tag, in order of appearance among the inputs, then those of the mask."""
        inputs = (dim for given in self.inputs for dim in given.dims)
        return tuple(dict.fromkeys((*inputs, *self.expr.dims)))

    @property
    def masks(self) -> tuple[BooleanInput, ...]:
        """The boolean arrays that its masks are given at a call, by keyword.

        >>> import symattn as sa
        >>> [mask.label for mask in sa.formula("key_padding").masks]
        ['padding']
        """
        return self.expr.booleans()

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """The numbers that it is given at a call, by keyword.

        >>> import symattn as sa
        >>> sa.formula("softcap").scalars
        (c,)
        """
        return self.expr.scalars()

    @property
    def relations(self) -> Relations:
        """The relations between tags that the formula needs."""
        return self.expr.given

    @property
    def twins(self) -> dict[Node, Node]:
        """How each input of the row layout comes from the column layout's: ``{Q_row: Q.T}``.

        It is the same in both layouts; matrices that both have in common are left out.  A family
        is told by one of its members, ``{W_row[i]: W[i].T}``.
        """
        return dict(self.pairs)

    @property
    def signature(self) -> str:
        r"""The attention function's type and what it maps Q, K and V to, in LaTeX.

        >>> import symattn as sa
        >>> r"\operatorname{Attention}" in sa.formula("dot_product").signature
        True
        """
        return self.latex_signatures()[0]

    @property
    def score_signature(self) -> str:
        r"""The score function's type, in LaTeX.

        >>> import symattn as sa
        >>> print(sa.formula("dot_product").score_signature)
        f: M^{d_{k} \times n} \times M^{d_{k} \times m} \to M^{m \times n}
        """
        return self.latex_signatures()[1]

    def signatures(self, preset: Preset | str | None = None) -> tuple[str, str]:
        """Return the types of the attention function and of its score function, as text."""
        return (
            attention_text(self.operands, self.function, preset, self.called),
            score_text(self.operands, self.function, preset),
        )

    def latex_signatures(self, preset: Preset | str | None = None) -> tuple[str, str]:
        """Return the types of the attention function and of its score function, in LaTeX."""
        return (
            attention_latex(self.operands, self.function, preset, name=self.called),
            score_latex(self.operands, self.function, preset),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Formula):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.name, self.layout, self.inputs, self.program

    def __repr__(self) -> str:
        return f"{self.name}:{self.layout}  {text(self.expr)}"

    def _repr_latex_(self) -> str:
        return self.expr._repr_latex_()
