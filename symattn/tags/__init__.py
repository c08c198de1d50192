"""Sizes of axes: tags, polynomials in them, relations between them, and solving for them.

A dimension is a *tag*, a name such as `n` or `d_k`, and an axis has a size that is a polynomial in
tags. Two sizes are equal if they are the same polynomial, or if a declared relation makes them so;
numbers that happen to agree prove nothing. The parts, each resting on those before it:

* `counts`, `polynomial`: what a size is at run time; plain polynomial arithmetic, bounded;
* `size`: `Size`, integer polynomials with exact division, and their equality;
* `characters`, `grammar`: reading sizes and tags from text, within bounds, evaluating nothing;
* `spec`: shapes of arrays, and of a whole signature, as text: `Q: ... d_k n -> ... n`;
* `relations`: `Relations`, declared equations kept as substitutions that end;
* `solver`: the sizes of tags from the sizes of arrays, in whatever order these come, and which
  would not follow from them whatever they are;
* `spelling`: a table's row by name, and the nearest names to one that nobody knows.

Nothing here knows SymPy or NumPy.
"""

from symattn.tags.counts import check_size
from symattn.tags.grammar import check_tag_name, parse_size
from symattn.tags.relations import Relations, is_at_least_one
from symattn.tags.size import Atom, Monomial, Quotient, Size, exact_quotient
from symattn.tags.solver import Equation, followed, solve, sufficient, undetermined
from symattn.tags.spec import (
    Axis,
    Rest,
    ShapeSpec,
    SignatureSpec,
    is_reference,
    parse_shape,
    parse_signature,
    reference_path,
)
from symattn.tags.spelling import named, nearest

__all__ = [
    "Atom",
    "Axis",
    "Equation",
    "Monomial",
    "Quotient",
    "Relations",
    "Rest",
    "ShapeSpec",
    "SignatureSpec",
    "Size",
    "check_size",
    "check_tag_name",
    "exact_quotient",
    "followed",
    "named",
    "is_at_least_one",
    "is_reference",
    "nearest",
    "parse_shape",
    "parse_signature",
    "parse_size",
    "reference_path",
    "solve",
    "sufficient",
    "undetermined",
]
