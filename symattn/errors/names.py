"""What is wrong with names and texts."""

from __future__ import annotations

from collections.abc import Sequence

from symattn.errors.root import SymattnError


class NameSyntaxError(SymattnError, ValueError):
    """A name of a matrix, scalar or function that is not written in the grammar.

    >>> print(NameSyntaxError("Q*K", 1))
    not a name: letters and digits, then _ ^ { } ' parts, as in W^Q or d_{model}:
        Q*K
         ^
    """

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        line = "".join(c if c.isprintable() else "�" for c in text[:90])
        super().__init__(
            "not a name: letters and digits, then _ ^ { } ' parts, as in W^Q or d_{model}:\n"
            f"    {line}\n    {' ' * position}^"
        )


class TextRefusedError(SymattnError, TypeError):
    """A string where an expression is needed: it would have to be evaluated, and text never is.

    >>> print(TextRefusedError("tanh", "x"))
    tanh does not take text ('x'): text is never evaluated; pass an expression
    """

    def __init__(self, call: str, text: str) -> None:
        self.call = call
        self.text = text
        super().__init__(
            f"{call} does not take text ({text[:40]!r}): text is never evaluated; "
            "pass an expression"
        )


class SymbolClashError(SymattnError, ValueError):
    """One name that stands for two different things in what is compared.

    >>> print(SymbolClashError("Q", ("Q ∈ M^{d_k×n}", "Q ∈ M^{n×d_k}"), "say how they relate"))
    Q is two different symbols here: Q ∈ M^{d_k×n} and Q ∈ M^{n×d_k}; say how they relate
    """

    def __init__(self, name: str, meanings: Sequence[str], advice: str) -> None:
        self.name = name
        self.meanings = tuple(meanings)
        self.advice = advice
        super().__init__(
            f"{name} is two different symbols here: {' and '.join(meanings)}; {advice}"
        )
