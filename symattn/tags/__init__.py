"""Sizes of axes: tags, polynomials in them, relations between them, and solving for them.

A dimension is a *tag*, a name such as `n` or `d_k`, and an axis has a size that is a polynomial in
tags. Two sizes are equal if they are the same polynomial, or if a declared relation makes them so;
numbers that happen to agree prove nothing. The parts, each resting on those before it:

* `counts`, `polynomial`: what a size is at run time; plain polynomial arithmetic, bounded;
* `size`: `Size`, integer polynomials with exact division, and their equality;
* `grammar`: reading sizes and tags from text, within bounds, evaluating nothing;
* `relations`: `Relations`, declared equations kept as substitutions that end;
* `solver`: the sizes of tags from the sizes of arrays, in whatever order these come;
* `spelling`: the nearest names, for an error that names one nobody knows.

Nothing here knows SymPy or NumPy.
"""

from symattn.tags.counts import check_size
from symattn.tags.grammar import (
    SizeLike,
    as_size,
    check_tag_name,
    parse_relations,
    parse_size,
    parse_sizes,
)
from symattn.tags.relations import Relations
from symattn.tags.size import Atom, Monomial, Quotient, Size, Term
from symattn.tags.solver import Equation, solve
from symattn.tags.spelling import nearest

__all__ = [
    "Atom",
    "Equation",
    "Monomial",
    "Quotient",
    "Relations",
    "Size",
    "SizeLike",
    "Term",
    "as_size",
    "check_size",
    "check_tag_name",
    "nearest",
    "parse_relations",
    "parse_size",
    "parse_sizes",
    "solve",
]
