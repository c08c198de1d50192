"""Reading a text character by character: tokens, integers and names, each with its place.

Every reader of this floor stands on this one, so that a tag is spelt alike wherever it is written:

    name = letter { letter | digit | _ | _{…} } { ' }           letters are Latin or Greek

Texts are compared after Unicode's NFC normalisation. Nothing in a text is ever evaluated.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from symattn.errors import SizeSyntaxError

MAX_DIGITS = 15

_LETTER = re.compile(r"(LATIN|GREEK) (SMALL|CAPITAL) LETTER ")
_TOKEN = re.compile(r"\*\*|//|->|\.\.\.|[-+.*^()=,;\n{}×]|[0-9]+|\\times(?![A-Za-z])")
# A whole name that is as plain as most are; the others are read letter by letter.
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?![A-Za-z0-9_{'′]|[^\x00-\x7f])")


@dataclass(slots=True)
class Characters:
    """A text and `position`, the place of the next character to be read."""

    text: str
    what: str
    limit: int
    lines: bool = False
    blanks: bool = True
    position: int = 0

    def __post_init__(self) -> None:
        self.text = unicodedata.normalize("NFC", self.text)
        if len(self.text) > self.limit:
            self.fail(f"at most {self.limit} characters", self.limit)

    def fail(self, expected: str, position: int | None = None) -> NoReturn:
        place = self.position if position is None else position
        raise SizeSyntaxError(self.text, place, expected, what=self.what)

    def skip(self) -> None:
        # Where lines separate relations, a line end is a token and not a blank.
        while self.blanks and self.text[self.position : self.position + 1].isspace():
            if self.lines and self.text[self.position] == "\n":
                return
            self.position += 1

    def at_end(self) -> bool:
        self.skip()
        return self.position == len(self.text)

    def end(self) -> None:
        if not self.at_end():
            self.fail("an operator or the end")

    def after_blank(self) -> bool:
        return self.text[self.position - 1].isspace()

    def take(self, *tokens: str) -> str | None:
        """Read the next token if it is one of these."""
        self.skip()
        match = _TOKEN.match(self.text, self.position)
        if match is None or match[0] not in tokens:
            return None
        self.position = match.end()
        return match[0]

    def skip_over(self, pattern: re.Pattern[str]) -> bool:
        """Read what this pattern matches, if it does; whether it does."""
        match = pattern.match(self.text, self.position)
        if match:
            self.position = match.end()
        return match is not None

    def integer(self) -> int | None:
        self.skip()
        match = _TOKEN.match(self.text, self.position)
        if match is None or not match[0].isdigit():
            return None
        if len(match[0]) > MAX_DIGITS:
            self.fail(f"an integer of at most {MAX_DIGITS} digits")
        self.position = match.end()
        return int(match[0])

    def name(self) -> str | None:
        self.skip()
        if plain := _PLAIN_NAME.match(self.text, self.position):
            self.position = plain.end()
            return plain[0]
        start = self.position
        if not self.letter(start):
            return None
        braced = False
        while True:
            here = self.position
            if self.text.startswith("_{", here):
                self.position += 2
                self.run(lambda p: self.letter(p) or self.digit(p) or self.text[p] == "_")
                if self.position == here + 2:
                    self.fail("a letter or a digit")
                if not self.text.startswith("}", self.position):
                    self.fail("'}'")
                self.position += 1
                braced = True
            elif self.letter(here) or self.digit(here):
                if braced:  # d_{k}x would otherwise become the tag d_kx
                    self.fail("an operator")
                self.position += 1
            elif self.text.startswith("_", here):
                self.position += 1
                braced = False
            else:
                break
        self.run(lambda p: self.text[p] in "'′")
        word = self.text[start : self.position]
        return word.replace("{", "").replace("}", "").replace("′", "'")

    def run(self, fits: Callable[[int], bool]) -> None:
        while self.position < len(self.text) and fits(self.position):
            self.position += 1

    def letter(self, position: int) -> bool:
        character = self.text[position : position + 1]
        return bool(character and _LETTER.match(unicodedata.name(character, "")))

    def digit(self, position: int) -> bool:
        return self.text[position : position + 1] in set("0123456789")
