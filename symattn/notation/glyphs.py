r"""Names as LaTeX and as text: letters, scripts, primes.

Only what the grammar of names lets through is ever emitted, and what stands side by side stays
apart: ``\alpha`` before a letter takes a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from symattn.errors import NameSyntaxError
from symattn.notation.names import GREEK, SPELLED, Name, check_name, parse_name
from symattn.notation.presets import Preset
from symattn.notation.rows import Binding

# Greek letters for which LaTeX has no command look like Latin ones, except the final sigma.
_LOOKALIKES = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True)) | {"ς": r"\varsigma"}
_WORD = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]")
_ENDS_IN_COMMAND = re.compile(r"\\[A-Za-z]+$")
# A name or function of several letters, in red or not.
_BEGINS_WITH_WORD = re.compile(r"(?:\{\\color\{red\}[ {])?\\math(?:rm|bf)\{[^{}]{2,}\}")

SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def product(factors: Iterable[str], gap: str) -> str:
    r"""Put factors side by side, with a thin space where words would run together.

    >>> print(product([r"\lambda", "A", r"\mathrm{Head}", "B"], ""))
    \lambda A\,\mathrm{Head}\,B
    """
    pieces: list[str] = []
    before = ""
    for factor in factors:
        # A call ends with its parenthesis, which keeps it apart from what follows.
        word = _BEGINS_WITH_WORD.match(before) and not before.endswith(")")
        apart = before and (word or _BEGINS_WITH_WORD.match(factor))
        pieces.append(rf"\,{factor}" if apart else factor)
        before = factor
    return joined(pieces, gap)


def joined(pieces: Iterable[str], gap: str = "") -> str:
    r"""Put pieces of LaTeX side by side.

    >>> joined([r"\lambda", "A", "B"])
    '\\lambda AB'
    """
    written: list[str] = []
    for piece in pieces:
        if written and not gap and _ENDS_IN_COMMAND.search(written[-1]) and piece[0].isalpha():
            written.append(" ")
        elif written:
            written.append(gap)
        written.append(piece)
    return "".join(written)


def latex_script(mark: str, content: str, preset: Preset) -> str:
    r"""Return a superscript or subscript, braced where the preset or its length asks for it."""
    bare = len(content) == 1 and content.isalnum() and not preset.braces
    return mark + (content if bare else "{" + content + "}")


def _letters(word: str) -> str:
    """Return a run of Latin letters and digits, or one other character, of a script."""
    if word in GREEK:
        return "\\" + word
    if len(word) > 1 and any(letter.islower() for letter in word):
        return rf"\text{{{word}}}"
    return _letter(word)


def _letter(word: str) -> str:
    if word in SPELLED:
        return "\\" + SPELLED[word]
    return {" ": r"\,"}.get(word, _LOOKALIKES.get(word, word))


def _content(text: str) -> str:
    """Return what stands in a script; an underscore there begins a script of its own."""
    outer, mark, inner = text.partition("_")
    written = joined(_letters(word) for word in _WORD.findall(outer))
    return written + ("_{" + _content(inner) + "}" if mark and inner else "")


def _base(base: str, bold: bool) -> str:
    if base in GREEK or base in SPELLED:
        command = "\\" + SPELLED.get(base, base)
        return rf"\boldsymbol{{{command}}}" if bold else command
    if len(base) == 1:
        letter = _letter(base)
        return rf"\mathbf{{{letter}}}" if bold else letter
    style = r"\mathbf" if bold else r"\mathrm"
    return joined(
        rf"{style}{{{word}}}" if word.isascii() else _letter(word) for word in _WORD.findall(base)
    )


@lru_cache(maxsize=4096)
def latex_name(
    label: str, preset: Preset, *, bold: bool = False, at: str = ""
) -> tuple[str, Binding]:
    r"""Return a name as LaTeX, and how tightly it binds; ``at`` is LaTeX of where it is read.

    >>> from symattn.notation.presets import PRESETS
    >>> latex_name("d_{model}", PRESETS["vaswani"])[0]
    'd_{\\text{model}}'
    >>> latex_name("w_Q", PRESETS["vaswani"], at="i")[0]
    'w_{Q,i}'

    With a superscript or a prime it binds like a power: another superscript needs parentheses.
    """
    name = _taken_apart(label)
    text = _base(name.base, bold)
    below = ",".join(filter(None, (_content(name.subscript), at)))
    if below:
        text += latex_script("_", below, preset)
    if name.superscript:
        above = joined([r"\prime"] * name.primes + [_content(name.superscript)], " ")
        text += latex_script("^", above, preset)
    else:
        text += "'" * name.primes
    return text, Binding.POWER if name.superscript or name.primes else Binding.ATOM


@lru_cache(maxsize=4096)
def text_name(label: str, at: str = "") -> tuple[str, Binding]:
    """Return a name as text, and how tightly it binds; ``at`` is where it is read.

    >>> text_name("lambda_{k}")[0], text_name("W^Q")[0], text_name("w_Q", "i")[0]
    ('λ_k', 'W^Q', 'w_{Q,i}')
    """
    name = _taken_apart(label)
    scripts = _normal(label)[len(name.base) :]
    if at:
        below = ",".join(filter(None, (name.subscript, at)))
        above = f"^{_braced(name.superscript)}" if name.superscript else ""
        scripts = f"{above}_{_braced(below)}" + "'" * name.primes
    text = GREEK.get(name.base, name.base) + scripts
    return text, Binding.POWER if name.superscript or name.primes else Binding.ATOM


def _braced(script: str) -> str:
    return script if script.isalnum() else "{" + script + "}"


def _normal(label: str) -> str:
    try:
        return check_name(label)
    except NameSyntaxError:
        return label


def _taken_apart(label: str) -> Name:
    """Take a name apart; a tag may have a name that no matrix has, such as d__k."""
    try:
        return parse_name(label)
    except NameSyntaxError:
        base, _, rest = label.rstrip("'′").partition("_")
        script = re.sub(r"[\W_]+", "_", rest).strip("_")
        return Name(re.sub(r"[\W_]+", "", base) or "d", subscript=script)
