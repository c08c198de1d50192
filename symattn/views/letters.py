"""What lines of `einsum` are made of: values with an index an axis, and a letter a size.

``"km,kn->mn"``: k is the letter of d_k in every line, and where two axes of one line have one size,
the second has the capital.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from string import ascii_letters, ascii_lowercase

from symattn.meaning.form import Index
from symattn.notation.rows import Binding
from symattn.tags import Size


@dataclass(frozen=True, slots=True)
class Value:
    """Source of an array, or of a number where it has no indices.

    A number that depends on arrays with leading axes has those axes (``leading``).
    """

    code: str
    indices: tuple[Index, ...] = ()
    binding: Binding = Binding.ATOM
    leading: bool = False

    def held(self, binding: Binding) -> str:
        """Return the source where it has to bind so tightly."""
        return self.code if self.binding >= binding else f"({self.code})"


class Letters:
    """The letter of each size: that of its tag, if no other size has it."""

    def __init__(self, sizes: Iterable[Size]) -> None:
        self.of: dict[Size, str] = {}
        # A merged axis, h·d_v, takes no letter from what it is made of.
        for size in sorted(sizes, key=lambda size: size.single_tag is None):
            if size in self.of or size.is_one:
                continue
            free = [letter for letter in ascii_lowercase if letter not in self.of.values()]
            wanted = (letter for letter in _wanted(size) if letter in free)
            self.of[size] = next(wanted, free[0] if free else "")

    def assigned(self, indices: Iterable[Index]) -> dict[Index, str]:
        """Return a letter for each index: a second of one size has the capital."""
        found: dict[Index, str] = {}
        for index in dict.fromkeys(indices):
            letter = self.of.get(index.size, "")
            others = (x for x in ascii_letters if x.lower() not in self.of.values())
            choices = [letter, letter.upper(), *others] if letter else list(others)
            found[index] = next(x for x in choices if x not in found.values())
        return found


def _wanted(size: Size) -> Iterable[str]:
    """Yield the letters that would say which size it is: k for d_k, n for n."""
    for tag in size.tags[:1]:
        base, _, script = tag.partition("_")
        yield from (part.lower() for part in (script, base) if len(part) == 1)
        yield base[0].lower()
