r"""Shapes of arrays as text: `... d_k n`, and of a whole signature: `Q: d_k n, K: d_k m -> m n`.

    signature = { name : shape , } [ -> result ]            also `;` or a new line, also `Q ∈ set`
    result    = shape | shape , shape … | ( shape , … )      several: a tuple of arrays
    shape     = [ axis { separator axis } ] | () | set       without axes: a 0-d array
    separator = blank | , | ×                                × between all axes, or between none
    set       = ( M | R | ℝ | \mathbb{R} ) ^ { shape }
    axis      = [#] [name =] size | _ | _name | rest
    rest      = ... | *name | *#name | *_                    one in a shape at most
    size      = as in `grammar`, with one more atom: { name . name … }

`#n` may also be 1, `_` and `_name` are any size, and a name before `=` is only for the reader; this
is jaxtyping's way, and its texts are read as they are. `h * d_k` and `h*d_k` are products; a star
that stands after a blank and right before a name opens a rest: `h *batch` is two things.

`{self.d_model}` refers to an attribute: a tag like any other here, whose size whoever checks the
shape looks up, name by name. Nothing in a text is ever evaluated, and its length is bounded.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from symattn.errors import SizeSyntaxError
from symattn.tags.characters import Characters
from symattn.tags.grammar import MAX_LENGTH, SizeReader
from symattn.tags.size import Size

MAX_SIGNATURE_LENGTH = 2000

_SPACE = r"(?:M|R|ℝ|\\R(?![A-Za-z])|\\math(?:bb|cal|bf|rm)(?:\s*\{\s*[MR]\s*\}|\s+[MR]))"
_BRACED_SPACE = re.compile(rf"{_SPACE}\s*\^\s*\{{")
_BARE_SPACE = re.compile(rf"{_SPACE}(\s*\^)?")
_LABEL = re.compile(r"[^\W\d]\w*\s*=\s*")
_REST = re.compile(r"\*(?:[^\W\d]|[#?])")
_SIZE = re.compile(r"[-0-9({]")
_NO_AXES = re.compile(r"\(\s*\)")
_PARAMETER = re.compile(r"(?:\A|[,;\n])\s*([^\W\d]\w*)\s*(:|∈|\\in(?![A-Za-z]))")
_ARROW = re.compile(r"->|→|\\to(?![A-Za-z])")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its size, or None for `_`, any size; `broadcasts` (`#n`): 1 will do as well."""

    size: Size | None
    broadcasts: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """Any number of axes: `...` (no name), or `*batch`, the same wherever it is written.

    `broadcasts` (`*#batch`): axes that broadcast with those of the others.
    """

    name: str | None
    broadcasts: bool = False


@dataclass(frozen=True, slots=True)
class ShapeSpec:
    """The declared shape of one array: axes, with at most one `Rest` between `before` and `after`.

    Without a rest, all axes are in `after`. `text` is what was written, blanks made single (of a
    set, what stands in its braces; of no axes, `()`), and reads back as this shape.
    """

    text: str
    before: tuple[Axis, ...]
    rest: Rest | None
    after: tuple[Axis, ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes besides the rest, in order."""
        return self.before + self.after

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes of the axes that have one, in order."""
        return tuple(axis.size for axis in self.axes if axis.size is not None)

    @property
    def tags(self) -> tuple[str, ...]:
        """Every tag once, in order of appearance; the rest's name is none.

        >>> parse_shape("*batch h*d_k 2*{self.n}").tags
        ('h', 'd_k', '{self.n}')
        """
        return tuple(dict.fromkeys(tag for size in self.sizes for tag in size.tags))

    @property
    def rank(self) -> int:
        """The number of axes besides the rest."""
        return len(self.before) + len(self.after)

    def fits_rank(self, rank: int) -> bool:
        """Whether an array with so many axes can have this shape.

        >>> parse_shape("... d_k n").fits_rank(5), parse_shape("d_k n").fits_rank(5)
        (True, False)
        """
        return rank == self.rank or (self.rest is not None and rank > self.rank)


@dataclass(frozen=True, slots=True)
class SignatureSpec:
    """The shapes of a function's parameters, and of its result: None if nothing is said of it."""

    parameters: Mapping[str, ShapeSpec]
    result: ShapeSpec | tuple[ShapeSpec, ...] | None


def parse_shape(text: str) -> ShapeSpec:
    r"""Read the shape of one array.

    >>> shape = parse_shape("... h*d_k, n+1")
    >>> shape.rest, [str(size) for size in shape.sizes]
    (Rest(name=None, broadcasts=False), ['h*d_k', 'n+1'])
    >>> parse_shape(r"\mathbb{R}^{d_k \times n}").tags
    ('d_k', 'n')
    >>> parse_shape("n ?d")
    Traceback (most recent call last):
        ...
    symattn.errors.SizeSyntaxError: expected one size for all leaves of a tree, no '?' in a shape:
        n ?d
          ^

    Raises `SizeSyntaxError`, which points at the place.
    """
    return _shape(text)


@lru_cache(maxsize=1024)
def _shape(text: str) -> ShapeSpec:
    return _ShapeReader(text, "a shape", MAX_LENGTH).shape()


def parse_signature(text: str) -> SignatureSpec:
    r"""Read the shapes of a function's parameters and of its result.

    >>> spec = parse_signature("Q: ... d_k n, K ∈ M^{d_k×m} -> ... m n")
    >>> {name: shape.text for name, shape in spec.parameters.items()}
    {'Q': '... d_k n', 'K': 'd_k×m'}
    >>> [shape.text for shape in parse_signature("x: n d -> n d, n").result]
    ['n d', 'n']

    Commas after the arrow separate arrays, not axes: where they might be either (`-> n, d`), the
    text is refused. Raises `SizeSyntaxError`, which points at the place.
    """
    whole = Characters(text, "a signature", MAX_SIGNATURE_LENGTH)
    text = whole.text
    arrow = _ARROW.search(text)
    end = arrow.start() if arrow else len(text)
    heads = list(_PARAMETER.finditer(text, 0, end))
    first, last = _trimmed(text, 0, heads[0].start() if heads else end)
    if first < last or not (heads or arrow):
        whole.fail("a parameter and its shape, as in 'Q: n d_k'", first)
    parameters: dict[str, ShapeSpec] = {}
    stops = (*(head.start() for head in heads[1:]), end)
    for head, stop in zip(heads, stops, strict=False):  # without parameters, one stop is left
        name = unicodedata.normalize("NFKC", head[1])  # as Python reads names
        if name in parameters:
            whole.fail(f"one shape of {name} only", head.start(1))
        parameters[name] = _part(text, head.end(), stop, member=head[2] != ":")
    return SignatureSpec(parameters, _result(whole, arrow.end()) if arrow else None)


def is_reference(tag: str) -> bool:
    """Whether this tag is a reference to an attribute.

    >>> is_reference("{self.d_model}"), is_reference("d_model")
    (True, False)
    """
    return tag.startswith("{")


def reference_path(tag: str) -> tuple[str, ...]:
    """The names of a reference, in the order in which they are looked up.

    >>> reference_path("{self.config.heads}")
    ('self', 'config', 'heads')
    """
    return tuple(tag[1:-1].split("."))


# -- signatures


def _trimmed(text: str, start: int, end: int, over: str = ",;") -> tuple[int, int]:
    """The part of a text without the blanks, and these characters, at its ends."""
    while start < end and (text[start].isspace() or text[start] in over):
        start += 1
    while start < end and (text[end - 1].isspace() or text[end - 1] in over):
        end -= 1
    return start, end


def _part(text: str, start: int, end: int, *, member: bool = False) -> ShapeSpec:
    """The shape that stands at this place of a signature."""
    start, end = _trimmed(text, start, end)
    reader = _ShapeReader(text[:end], "a signature", MAX_SIGNATURE_LENGTH, lines=True)
    reader.position = start
    try:
        return reader.shape(member=member)
    except SizeSyntaxError as error:  # shown with all of its line
        raise SizeSyntaxError(text, error.position, error.expected, what=error.what) from None


def _result(whole: Characters, start: int) -> ShapeSpec | tuple[ShapeSpec, ...]:
    text = whole.text
    start, end = _trimmed(text, start, len(text), ";")
    enclosed = text[start : start + 1] == "(" and text[end - 1] == ")"
    pieces = list(_pieces(text, start + 1, end - 1)) if enclosed else []
    if len(pieces) > 1:
        if pieces[-1][0] == pieces[-1][1]:  # (n d,) is a tuple of one
            pieces.pop()
        return _results(whole, pieces)
    pieces = list(_pieces(text, start, end))
    if len(pieces) < 2:
        return _part(text, start, end)
    shapes = _results(whole, pieces)
    if all(shape.rank + (shape.rest is not None) == 1 for shape in shapes):
        whole.fail("blanks between axes, or parentheses around several results", pieces[0][1])
    return shapes


def _results(whole: Characters, pieces: list[tuple[int, int]]) -> tuple[ShapeSpec, ...]:
    for start, end in pieces:
        if start == end:
            whole.fail("a shape, which is '()' for an array without axes", start)
    return tuple(_part(whole.text, start, end) for start, end in pieces)


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts between the commas that stand in no brackets; none where these are not paired."""
    depth, cuts = 0, [start - 1]
    for place in range(start, end):
        depth += (text[place] in "({") - (text[place] in ")}")
        if depth < 0:
            return
        if text[place] == "," and not depth:
            cuts.append(place)
    for left, right in zip(cuts, [*cuts[1:], end], strict=True):
        yield _trimmed(text, left + 1, right, "")


# -- one shape


class _ShapeReader(SizeReader):
    """Reads one shape, which ends where the text does."""

    def shape(self, *, member: bool = False) -> ShapeSpec:
        """The shape; that of a `member`, which `∈` stands before, is written as a set."""
        self.skip()
        if self.skip_over(_BRACED_SPACE):
            shape = self.axes(closing="}")
            if not self.take("}"):
                self.fail("an operator, '×' or '}'")
        elif member:
            shape = self.bare_space()
        elif self.skip_over(_NO_AXES):
            shape = _SCALAR
        else:
            start = self.position
            try:
                shape = self.axes()
            except SizeSyntaxError:
                self.refuse_enclosed(start)
                raise
        if not self.at_end():
            self.fail("the end")
        return shape

    def refuse_enclosed(self, start: int) -> None:
        """Refuse axes that stand in parentheses, as a tuple does: `(n d)`, `(n, d)`."""
        end = _trimmed(self.text, start, len(self.text))[1]
        if self.text[start] != "(" or self.text[end - 1] != ")":
            return
        inside = self.text[start + 1 : end - 1].strip(", \t\n")
        by_commas = len(list(_pieces(self.text, start + 1, end - 1))) > 1
        try:
            shape = _shape(inside)
        except SizeSyntaxError:
            return
        if not (by_commas and " " in inside.replace(", ", ",")):  # else they are several shapes
            self.fail(f"the axes without parentheses, {shape.text!r},", start)

    def axes(self, closing: str = "") -> ShapeSpec:
        """The axes up to this brace, `×` between them, or up to the end."""
        start = self.position
        before: list[Axis] = []
        rest: Rest | None = None
        after: list[Axis] = []
        by_times: bool | None = True if closing else None
        while not self.at_end() and self.text[self.position] != closing:
            place = self.position
            if rest or after:
                kind = self.separator()
                if by_times not in (kind, None):
                    self.fail("'×' between all axes, or between none", place)
                by_times = kind
                self.skip()
                place = self.position
            axis = self.axis()
            if isinstance(axis, Axis):
                after.append(axis)
            elif rest:
                self.fail("one '...' or '*name' only", place)
            else:
                before, rest, after = after, axis, []
        text = " ".join(self.text[start : self.position].replace(r"\times", "×").split())
        return ShapeSpec(text or "()", tuple(before), rest, tuple(after))

    def separator(self) -> bool:
        """Read what stands between two axes; whether it is `×`."""
        if self.take("×", r"\times"):
            return True
        if not self.take(",") and not self.after_blank():
            self.fail("an operator, a blank or a comma")
        return False

    def bare_space(self) -> ShapeSpec:
        """A set without braces: `ℝ^n`, or `ℝ`, whose members have no axes."""
        symbol = _BARE_SPACE.match(self.text, self.position)
        if symbol is None:
            self.fail("a set, as in 'Q ∈ ℝ^{n×d_k}'")
        self.position = symbol.end()
        if not symbol[1]:
            if "M" in symbol[0]:
                self.fail("'^' and a shape")
            return _SCALAR
        self.skip()
        start = self.position
        size = self.atom()
        return ShapeSpec(self.text[start : self.position], (), None, (Axis(size),))

    def axis(self) -> Axis | Rest:
        if self.take("..."):
            return Rest(None)
        marks = self.marks()
        if "*" in marks:
            if "#" not in marks and self.anonymous():
                return Rest(None)
            if not self.letter(self.position):
                self.fail("a name right after the star")
            return Rest(self.name(), "#" in marks)
        self.skip_over(_LABEL)
        if not marks and self.anonymous():
            return Axis(None)
        if not (_SIZE.match(self.text, self.position) or self.letter(self.position)):
            self.fail("a size" if marks else "a size, '_', '...' or '*name'")
        place = self.position
        size = self.size()
        if size.constant is not None and size.constant < 0:
            self.fail("a size of at least 0", place)
        return Axis(size, bool(marks))

    def marks(self) -> str:
        """The signs right before an axis: `#`, `*`, or both in any order."""
        start = self.position
        while (mark := self.text[self.position : self.position + 1]) in ("#", "*", "?"):
            if mark == "?":
                self.fail("one size for all leaves of a tree, no '?'")
            if mark in self.text[start : self.position]:
                self.fail(f"one {mark!r} only")
            self.position += 1
        return self.text[start : self.position]

    def anonymous(self) -> bool:
        """Read `_` or `_name`, which say nothing of a size."""
        if not self.text.startswith("_", self.position):
            return False
        self.position += 1
        if self.digit(self.position) or self.text.startswith("_", self.position):
            self.fail("a letter")
        if self.letter(self.position):
            self.name()
        return True

    def atom(self) -> Size:
        if self.take("{"):
            return Size.tag(self.reference())
        self.skip()
        place = self.position
        size = SizeReader.atom(self)
        if size.single_tag == "None":
            self.fail("a shape (what may be None, or is no array, is said in annotations)", place)
        return size

    def times(self) -> str | None:
        self.skip()
        opens_a_rest = _REST.match(self.text, self.position) and self.after_blank()
        if opens_a_rest and not self.depth:
            return None
        return SizeReader.times(self)

    def reference(self) -> str:
        """What follows an opening brace, as a tag."""
        path: list[str] = []
        while True:
            self.skip()
            start = self.position
            self.run(lambda place: f"_{self.text[place]}".isidentifier())
            name = unicodedata.normalize("NFKC", self.text[start : self.position])
            if not name.isidentifier():
                self.fail("a name", start)
            if keyword.iskeyword(name):
                self.fail(f"a name, which {name!r} is not in Python", start)
            if name.startswith("__"):
                self.fail("a name that does not begin with '__'", start)
            path.append(name)
            if self.take("}"):
                return "{" + ".".join(path) + "}"
            if not self.take("."):
                self.fail("'.' or '}' (names are looked up, nothing is evaluated)")


_SCALAR = ShapeSpec("()", (), None, ())
