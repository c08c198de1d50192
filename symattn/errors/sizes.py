"""What is wrong with sizes: how they are written, related, or solved for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symattn.errors.root import SymattnError


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
    "at least": "{tag} must be an integer of at least {detail}, but is {value}",
    "integer": "{tag} must be an integer, but is {value}",
    "remainder": "{said} leaves a remainder: {detail}",
    "contradiction": "{size} = {value} from {where}, but {other_value} from {other_where}",
    "broken": "{where} does not hold with {other_where}",
    "inconsistent": "{said} does not fit: {detail}",
    "together": "no sizes satisfy {where} together",
    "fixed": "{where} has size {value}, where {size} is declared",
    "underdetermined": "not determined by the sizes at hand: {tags}; give {needed}",
    "unknown": "the size of {tags} is not known",
    "inexact": "{size} is not a whole number: {detail}",
    "too large": "a size grows beyond what is worth computing with",
    "zero division": "{size} divides by zero",
}


class SizeError(SymattnError, ValueError):
    """Sizes that do not fit together, do not suffice, or are no sizes at all.

    `problem` is the kind of mistake (a key of the table above); every fact in the message is an
    attribute too: `tag`, `tags`, `size`, `value`, `where`, `other_value`, `other_where`, `detail`
    (None where the kind has no such fact), and `enough`, those of `tags` that the others follow
    from.

    >>> print(SizeError("positive", tag="n", value=0))
    n must be a positive integer, but is 0
    >>> print(SizeError("contradiction", size="n", value=5, where="K's columns",
    ...                 other_value=7, other_where="V's columns"))
    n = 5 from K's columns, but 7 from V's columns
    >>> print(SizeError("underdetermined", tags=["h", "d_k"], enough=["h"]))
    not determined by the sizes at hand: h, d_k; give h by name, and the rest follows
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
        enough: Sequence[str] = (),
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
        self.enough = tuple(enough) or self.tags
        all_follow = f"{' and '.join(self.enough)} by name, and the rest follows"
        needed = all_follow if len(self.enough) < len(self.tags) else "each by name"
        # A relation is said as it was declared; from anything else a size has a value.
        declared = where is not None and where.startswith("the relation ")
        said = where if declared else f"{size} = {value} from {where}"
        facts = {**self.__dict__, "tags": ", ".join(self.tags), "said": said, "needed": needed}
        template = "broken" if declared and problem == "contradiction" else problem
        super().__init__(_SIZE_PROBLEMS[template].format_map(facts))
