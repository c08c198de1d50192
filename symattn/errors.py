"""Every error that symattn raises, each holding its facts and composing its own message.

An error is a value: a caller reads `error.position` or `error.tags` rather than taking a message
apart, and the message is written in one place, from those facts, in `__init__`. Everything derives
from `SymattnError`, and also from the built-in class that says what kind of mistake it was
(`ValueError`, `LookupError`), so that code which has never heard of symattn still catches it.

The invariant: an error survives copying and pickling with its facts and message unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def _revive(
    kind: type[SymattnError], args: tuple[object, ...], facts: dict[str, object]
) -> SymattnError:
    """Rebuild an error without running `__init__`, whose arguments are facts, not the message."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class SymattnError(Exception):
    """The root: `except SymattnError` catches everything that symattn raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self), self.args, dict(self.__dict__))


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


class SizeSyntaxError(SymattnError, ValueError):
    """A size, a tag name or a relation that is not written in the grammar.

    >>> print(SizeSyntaxError("2*(n", 4, "')'"))
    expected ')' in a size:
        2*(n
            ^
    """

    def __init__(self, text: str, position: int, expected: str, *, what: str = "a size") -> None:
        self.text = text
        self.position = position
        self.expected = expected
        self.what = what
        # Only the line that the caret is under: relations may be written one a line.
        before, after = text[:position], text[position:]
        start = before.rfind("\n") + 1
        end = len(before) + (after.find("\n") if "\n" in after else len(after))
        # What does not print (a tab, a control character) would move the caret away from its place.
        line = "".join(c if c.isprintable() else "�" for c in text[start:end])
        column = position - start
        first = max(0, column - 60)
        shown = ("…" if first else "") + line[first : first + 90]
        caret = " " * (column - first + (1 if first else 0)) + "^"
        super().__init__(f"expected {expected} in {what}:\n    {shown}\n    {caret}")


class RelationError(SymattnError, ValueError):
    """A relation between tags that cannot be taken: it is unsatisfiable, or gives no tag's size.

    >>> print(RelationError("n = n+1", "no sizes satisfy it"))
    the relation n = n+1 is refused: no sizes satisfy it
    """

    def __init__(self, relation: str, reason: str) -> None:
        self.relation = relation
        self.reason = reason
        super().__init__(f"the relation {relation} is refused: {reason}")


_SIZE_PROBLEMS: Mapping[str, str] = {
    "beyond": "{tag} is too large: {value}",
    "positive": "{tag} must be a positive integer, but is {value}",
    "non-negative": "{tag} must be a non-negative integer, but is {value}",
    "integer": "{tag} must be an integer, but is {value}",
    "remainder": "{size} = {value} from {where} leaves a remainder: {detail}",
    "contradiction": "{size} = {value} from {where}, but {other_value} from {other_where}",
    "inconsistent": "{size} = {value} from {where} does not fit: {detail}",
    "together": "no sizes satisfy {where} together",
    "fixed": "{where} has size {value}, where {size} is declared",
    "underdetermined": "not determined by the sizes at hand: {tags}; give each by name",
    "unknown": "the size of {tags} is not known",
    "inexact": "{size} is not a whole number: {detail}",
    "too large": "a size grows beyond what is worth computing with",
    "zero division": "{size} divides by zero",
}


class SizeError(SymattnError, ValueError):
    """Sizes that do not fit together, do not suffice, or are no sizes at all.

    `problem` is the kind of mistake (a key of the table above); every fact in the message is an
    attribute too: `tag`, `tags`, `size`, `value`, `where`, `other_value`, `other_where`, `detail`
    (None where the kind has no such fact).

    >>> print(SizeError("positive", tag="n", value=0))
    n must be a positive integer, but is 0
    >>> print(SizeError("contradiction", size="n", value=5, where="K's columns",
    ...                 other_value=7, other_where="V's columns"))
    n = 5 from K's columns, but 7 from V's columns
    """

    def __init__(
        self,
        problem: str,
        *,
        tag: str | None = None,
        tags: Sequence[str] = (),
        size: str | None = None,
        value: object = None,
        where: str | None = None,
        other_value: object = None,
        other_where: str | None = None,
        detail: str | None = None,
    ) -> None:
        self.problem = problem
        self.tag = tag
        self.tags = tuple(tags) if tags or tag is None else (tag,)
        self.size = size
        self.value = value
        self.where = where
        self.other_value = other_value
        self.other_where = other_where
        self.detail = detail
        facts = {**self.__dict__, "tags": ", ".join(self.tags)}
        super().__init__(_SIZE_PROBLEMS[problem].format_map(facts))


class UnknownNameError(SymattnError, LookupError):
    """A name that nothing answers to, with the names that are spelt most like it, or all there are.

    >>> print(UnknownNameError("formula", "dot_prodct", ["dot_product"]))
    there is no formula named 'dot_prodct'; did you mean 'dot_product'?
    >>> print(UnknownNameError("preset", "x", choices=["freshrimp", "vaswani"]))
    there is no preset named 'x'; there are freshrimp, vaswani
    """

    def __init__(
        self, kind: str, name: str, nearest: Sequence[str] = (), choices: Sequence[str] = ()
    ) -> None:
        self.kind = kind
        self.name = name
        self.nearest = tuple(nearest)
        self.choices = tuple(choices)
        meant = " or ".join(repr(near) for near in self.nearest)
        there = ", ".join(self.choices)
        hint = f"; did you mean {meant}?" if meant else f"; there are {there}" if there else ""
        super().__init__(f"there is no {kind} named {name!r}{hint}")


# Further errors follow here, one class for each kind of mistake, written like those above.


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


class NotAnOperandError(SymattnError, TypeError):
    """A value that cannot stand in a formula.

    >>> print(NotAnOperandError("inf", "it is not a finite real number"))
    inf cannot stand in a formula: it is not a finite real number
    """

    def __init__(self, value: str, reason: str) -> None:
        self.value = value
        self.reason = reason
        super().__init__(f"{value} cannot stand in a formula: {reason}")


class OperationRefusedError(SymattnError, TypeError):
    """An operation that a formula does not have, with what to write in its place.

    >>> print(OperationRefusedError("X**2", "for entrywise squares write sa.hadamard(X, X)"))
    X**2 is not an operation of formulas: for entrywise squares write sa.hadamard(X, X)
    """

    def __init__(self, operation: str, advice: str) -> None:
        self.operation = operation
        self.advice = advice
        super().__init__(f"{operation} is not an operation of formulas: {advice}")


class AttributeRefusedError(OperationRefusedError, AttributeError):
    """A property that a formula does not have: `hasattr` answers no, as everyone who asks expects.

    >>> print(AttributeRefusedError(".I", "1/x of every entry is sa.reciprocal(X)"))
    .I is not an operation of formulas: 1/x of every entry is sa.reciprocal(X)
    """


class NotSupportedError(SymattnError, NotImplementedError):
    """Something sound that symattn cannot do yet; it says so rather than guess.

    >>> print(NotSupportedError("the scalar Abs(c)"))
    not supported yet: the scalar Abs(c)
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"not supported yet: {what}")


class InternalError(SymattnError, RuntimeError):
    """A fault of symattn itself: two routes that must agree do not."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"this is a bug in symattn, please report it: {what}")


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


class SignatureError(SymattnError, ValueError):
    """Inputs that are not those of the formula for which a function is generated.

    >>> print(SignatureError("V Softmax(KᵀQ)", ("V is in the formula, but not among the inputs",)))
    no function of these inputs computes V Softmax(KᵀQ)
      V is in the formula, but not among the inputs
    """

    def __init__(self, formula: str, problems: Sequence[str]) -> None:
        self.formula = formula
        self.problems = tuple(problems)
        lines = [f"no function of these inputs computes {formula}", *self.problems]
        super().__init__("\n  ".join(lines))


class CallError(SymattnError, TypeError):
    """A generated function called with too many, too few or unknown arguments.

    >>> print(CallError("f(Q, K, V)", "V is missing"))
    f(Q, K, V): V is missing
    """

    def __init__(self, call: str, reason: str) -> None:
        self.call = call
        self.reason = reason
        super().__init__(f"{call}: {reason}")


class InputError(SymattnError, TypeError):
    """An argument of a generated function that is not an array (or number) that it can take.

    ``fix`` is the conversion to make before the call.

    >>> print(InputError("Q", "an array of int64", "Q.astype(np.float64)"))
    Q is an array of int64; give float16, float32 or float64: Q.astype(np.float64)
    """

    def __init__(
        self, name: str, found: str, fix: str, wanted: str = "float16, float32 or float64"
    ) -> None:
        self.name = name
        self.found = found
        self.fix = fix
        self.wanted = wanted
        super().__init__(f"{name} is {found}; give {wanted}" + (f": {fix}" if fix else ""))


class InputShapeError(SymattnError, ValueError):
    """Arrays whose shapes do not fit the tags of the inputs, or each other.

    ``shapes`` holds for each input its name, its axes in tags, and the shape that was given.

    >>> print(InputShapeError("d_k = 4 from Q's rows, but 3 from K's rows",
    ...                       (("Q", "(…, d_k, n)", (4, 5)), ("K", "(…, d_k, m)", (3, 7)))))
    d_k = 4 from Q's rows, but 3 from K's rows
      Q (…, d_k, n) has shape (4, 5)
      K (…, d_k, m) has shape (3, 7)
    """

    def __init__(
        self,
        problem: str,
        shapes: Sequence[tuple[str, str, tuple[int, ...]]],
        hint: str = "",
    ) -> None:
        self.problem = problem
        self.shapes = tuple(shapes)
        self.hint = hint
        lines = [problem]
        lines += [f"  {name} {axes} has shape {shape}" for name, axes, shape in self.shapes]
        if hint:
            lines.append(f"  {hint}")
        super().__init__("\n".join(lines))


class BackendError(SymattnError, RuntimeError):
    """An array library that a generated function needs, and that cannot be imported here.

    >>> print(BackendError("cupy", "python -m pip install 'symattn[cuda12]'"))
    the library cupy cannot be imported here; to install it: python -m pip install 'symattn[cuda12]'
    """

    def __init__(self, library: str, installation: str) -> None:
        self.library = library
        self.installation = installation
        super().__init__(
            f"the library {library} cannot be imported here; to install it: {installation}"
        )


class ScalarError(SymattnError, ValueError):
    """A scalar of a formula that is no finite real number, with the sizes and scalars of a call.

    >>> print(ScalarError("1 / √d_k", "it divides by zero", {"d_k": 0}))
    the scalar 1 / √d_k cannot be computed: it divides by zero, with d_k = 0
    """

    def __init__(self, scalar: str, reason: str, values: Mapping[str, float]) -> None:
        self.scalar = scalar
        self.reason = reason
        self.values = dict(values)
        given = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        message = f"the scalar {scalar} cannot be computed: {reason}"
        super().__init__(message + (f", with {given}" if given else ""))


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


class UndefinedPointError(SymattnError, ArithmeticError):
    """A formula has no value at these inputs: it divides by zero, or takes the log of -1.

    >>> print(UndefinedPointError("log(-1)"))
    undefined at this point: log(-1)
    """

    def __init__(self, what: str, *, divides_by_zero: bool = False) -> None:
        self.what = what
        self.divides_by_zero = divides_by_zero
        super().__init__(f"undefined at this point: {what}")
