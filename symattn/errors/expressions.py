"""What is wrong with a formula: operands, shapes, axes, masks, heads, entries."""

from __future__ import annotations

from collections.abc import Sequence

from symattn.errors.root import SymattnError


class NotAnOperandError(SymattnError, TypeError):
    """A value that cannot stand in a formula.

    >>> print(NotAnOperandError("inf", "it is not a finite real number"))
    inf cannot stand in a formula: it is not a finite real number
    """

    def __init__(self, value: str, reason: str) -> None:
        self.value = value
        self.reason = reason
        super().__init__(f"{value} cannot stand in a formula: {reason}")


class ShapeError(SymattnError, ValueError):
    """Operands whose tags do not fit.

    ``operation`` is what was being built, ``operands`` pairs each operand with its sizes, ``clash``
    says which sizes differ and where each comes from, ``fix`` is a way to write it that was checked
    to fit (empty if none was found), and ``fixed`` the expression that was built to check it.

    >>> print(ShapeError("K @ Q", (("K", "d_k", "m"), ("Q", "d_k", "n")),
    ...                  "the columns of K are m, but the rows of Q are d_k", "K.T @ Q"))
    K @ Q does not fit: the columns of K are m, but the rows of Q are d_k
      K ∈ M^{d_k×m}
      Q ∈ M^{d_k×n}
      this fits: K.T @ Q
    """

    def __init__(
        self,
        operation: str,
        operands: Sequence[tuple[str, str, str]],
        clash: str,
        fix: str = "",
        fixed: object = None,
    ) -> None:
        self.operation = operation
        self.operands = tuple(operands)
        self.clash = clash
        self.fix = fix
        self.fixed = fixed
        lines = [f"{operation} does not fit: {clash}"]
        lines += [f"  {name} ∈ M^{{{rows}×{columns}}}" for name, rows, columns in self.operands]
        if fix:
            lines.append(f"  this fits: {fix}")
        super().__init__("\n".join(lines))


class AxisError(ShapeError):
    """A softmax or maximum whose axis is missing, ambiguous or not there.

    >>> print(AxisError("softmax(S)", (("S", "n", "n"),), "over=n names both axes",
    ...                 "softmax(S, axis=0), every column sums to 1"))
    softmax(S) does not fit: over=n names both axes
      S ∈ M^{n×n}
      this fits: softmax(S, axis=0), every column sums to 1
    """


class MaskError(SymattnError, TypeError):
    """A value that is no mask, or a mask that cannot be used in that way.

    ``value`` is what was given, ``reason`` why it is refused and what to write in its place.

    >>> print(MaskError("array of shape (5, 7)", "write mask=sa.keep() and give it at the call"))
    array of shape (5, 7) is not a mask here: write mask=sa.keep() and give it at the call
    """

    def __init__(self, value: str, reason: str) -> None:
        self.value = value
        self.reason = reason
        super().__init__(f"{value} is not a mask here: {reason}")


class AlignmentError(MaskError, ValueError):
    """A mask by positions over unequal numbers of queries and keys, which says no alignment.

    ``queries`` and ``keys`` are the two sizes.

    >>> print(AlignmentError("causal()", "n", "m"))
    causal() is not a mask here: of n queries and m keys, which stand at the same position? ...
    """

    def __init__(self, mask: str, queries: str, keys: str) -> None:
        self.queries = queries
        self.keys = keys
        super().__init__(
            mask,
            f"of {queries} queries and {keys} keys, which stand at the same position? say "
            'align="top_left" (the first of each: j ≤ i) or align="bottom_right" (the last of '
            f"each: j ≤ i + {keys} - {queries}), or declare "
            f'sa.assuming("{keys} = {queries}")',
        )


class MinusInfinityError(SymattnError, ValueError):
    """An additive mask where −∞ would have to be a number.

    ``value`` is what has entries of −∞, ``reason`` why they cannot stand there and what to write.

    >>> print(MinusInfinityError("S + M", "tanh takes finite numbers; write tanh(S) + M"))
    S + M has entries of −∞, which is no number: tanh takes finite numbers; write tanh(S) + M
    """

    def __init__(self, value: str, reason: str) -> None:
        self.value = value
        self.reason = reason
        super().__init__(f"{value} has entries of −∞, which is no number: {reason}")


class FamilyIndexError(SymattnError, LookupError):
    """A member of a family that is read at indices which do not fit the family.

    >>> print(FamilyIndexError("W", ("h",), ("0",)))
    W[0] is no member of the family W: it takes 1 index, made with sa.index("i", h)
    >>> print(FamilyIndexError("W", ("h",), ("j",), runs=("j", "n", "h")))
    W[j] is no member of the family W: j runs over n, but the family has h members
    """

    def __init__(
        self,
        name: str,
        counts: Sequence[object],
        indices: Sequence[str],
        *,
        runs: tuple[str, object, object] | None = None,
    ) -> None:
        self.name = name
        self.counts = tuple(map(str, counts))
        self.indices = tuple(indices)
        self.runs = None if runs is None else tuple(map(str, runs))
        if self.runs is not None:
            index, size, count = self.runs
            reason = f"{index} runs over {size}, but the family has {count} members"
        elif not self.counts:
            reason = "a family has one count or more, such as sa.family(name, h, rows, columns)"
        else:
            asked = "1 index" if len(self.counts) == 1 else f"{len(self.counts)} different indices"
            made = ", ".join(
                f'sa.index("{letter}", {count})'
                for letter, count in zip("ijkl", self.counts, strict=False)
            )
            reason = f"it takes {asked}, made with {made}"
        written = ", ".join(self.indices)
        super().__init__(f"{name}[{written}] is no member of the family {name}: {reason}")


class HeadsError(SymattnError, ValueError):
    """An axis that is to be split into equal heads, and does not come out even.

    >>> print(HeadsError("Q", "rows", "d_model", "i", "h"))
    head(Q, i) does not fit: the rows of Q are d_model, which h does not divide for all sizes
      declare what a head has: with sa.assuming("d_model = h*d_k")
    >>> print(HeadsError("Q", "rows", 10, "i", 4))
    head(Q, i) does not fit: the rows of Q are 10, which 4 does not divide
    """

    def __init__(self, whole: str, side: str, size: object, index: str, count: object) -> None:
        self.whole = whole
        self.side = side
        self.size = str(size)
        self.index = index
        self.count = str(count)
        message = (
            f"head({whole}, {index}) does not fit: the {side} of {whole} are {size}, "
            f"which {count} does not divide"
        )
        if not (self.size.isdigit() and self.count.isdigit()):
            message += " for all sizes"
            part = "d_k" if "d_k" not in (self.size, self.count) else "d_h"
            if self.size.isidentifier():
                message += (
                    f'\n  declare what a head has: with sa.assuming("{self.size} = '
                    f'{self.count}*{part}")'
                )
        super().__init__(message)


class EntryError(SymattnError, IndexError):
    """A row or a column that a formula does not have.

    ``formula`` is what was to be read, ``axis`` "row" or "column" (or "base"), ``given`` what was
    given for it and ``reason`` why it is refused and what fits.

    >>> print(EntryError("K.T @ Q", "row", "7", "the rows are counted from 0 to 4"))
    entry of K.T @ Q: 7 is no row; the rows are counted from 0 to 4
    """

    def __init__(self, formula: str, axis: str, given: str, reason: str) -> None:
        self.formula = formula
        self.axis = axis
        self.given = given
        self.reason = reason
        super().__init__(f"entry of {formula}: {given} is no {axis}; {reason}")


class UndefinedPointError(SymattnError, ArithmeticError):
    """A formula has no value at these inputs: it divides by zero, or takes the log of -1.

    >>> print(UndefinedPointError("log(-1)"))
    undefined at this point: log(-1)
    """

    def __init__(self, what: str, *, divides_by_zero: bool = False) -> None:
        self.what = what
        self.divides_by_zero = divides_by_zero
        super().__init__(f"undefined at this point: {what}")
