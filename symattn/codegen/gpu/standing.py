"""What the names of a score's text stand for: in words, and as the types of arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping

from symattn.codegen.blocked import Attended
from symattn.codegen.gpu.leaves import (
    DotLeaf,
    EntryLeaf,
    FixedLeaf,
    KeepLeaf,
    KeyLeaf,
    Leaf,
    PairSumLeaf,
    QueryLeaf,
)
from symattn.codegen.gpu.score_text import ScoreText
from symattn.notation import text

_LINES = ("row", "column")  # of an operand along whose axis 0, or 1, tokens lie


def stand_for(attended: Attended, written: ScoreText) -> Mapping[str, str]:
    """Return every name of a text, with what it stands for."""
    operands = [text(node) for node in attended.matrices[1:]]
    found: dict[str, str] = {}
    for name, leaf in written.leaves.items():
        found[name] = _words(name, leaf, operands)
        if isinstance(leaf, PairSumLeaf):
            found |= {one: _of_vector(vector, operands) for one, vector in leaf.vectors.items()}
    forms = {**written.scalars, **written.sizes}
    found |= {name: text(form) for name, form in forms.items()}
    positions = {"i": "the position of the query, from 0", "j": "the position of the key"}
    codes = (written.score, written.seen, written.reweigh)
    return found | {
        name: words for name, words in positions.items() if any(name in tokens(c) for c in codes)
    }


def _words(name: str, leaf: Leaf, operands: list[str]) -> str:
    match leaf:
        case DotLeaf(query, query_axis, key, key_axis, scale):
            first = f"the query's {_LINES[query_axis]} of {operands[query]}"
            second = f"the key's {_LINES[key_axis]} of {operands[key]}"
            return f"{first} times {second}{f', times {scale}' if scale else ''}"
        case QueryLeaf(operand):
            return f"the query's entry of {operands[operand]}"
        case KeyLeaf(operand):
            return f"the key's entry of {operands[operand]}"
        case EntryLeaf(operand):
            return f"the pair's entry of {operands[operand]}"
        case KeepLeaf(label, ranks):
            whose = "pair's" if ranks == 2 else "key's"
            return f"the {whose} entry of {label}: whether the query may attend to the key"
        case PairSumLeaf(weight, vectors):
            term = f"term_{name}({', '.join(vectors)})"
            return f"the sum of {term} times each entry of {operands[weight]}"


def _of_vector(leaf: QueryLeaf | KeyLeaf | FixedLeaf, operands: list[str]) -> str:
    match leaf:
        case QueryLeaf(operand, axis):
            return f"that entry of the query's {_LINES[axis]} of {operands[operand]}"
        case KeyLeaf(operand, axis):
            return f"that entry of the key's {_LINES[axis]} of {operands[operand]}"
        case FixedLeaf(operand):
            return f"that entry of {operands[operand]}"


def reads(written: ScoreText, code: str) -> Mapping[str, str]:
    """Return the names that a code reads, each with what it is: number, whole, or truth."""
    kinds = {
        name: "truth" if isinstance(leaf, KeepLeaf) else "number"
        for name, leaf in written.leaves.items()
    }
    kinds |= dict.fromkeys(written.scalars, "number")
    kinds |= dict.fromkeys(("i", "j", *written.sizes), "whole")
    used = tokens(code)
    return {name: kind for name, kind in kinds.items() if name in used}


TOKEN = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
"""A name in a code, and no attribute of one."""


def tokens(code: str) -> frozenset[str]:
    """Return the names in a code.

    >>> sorted(tokens("s0 + c1 * (i - j).to(tl.float32)"))
    ['c1', 'i', 'j', 's0', 'tl']
    """
    return frozenset(TOKEN.findall(code))
