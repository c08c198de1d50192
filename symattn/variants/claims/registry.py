"""Every claim by name: theorems, and the mistakes that people take for theorems.

A theme is a module with ``CLAIMS``; adding a theme is adding it to the table.
"""

from __future__ import annotations

from symattn.tags import named
from symattn.variants.claims import (
    additive_masks,
    comparisons,
    key_blocks,
    masking,
    mistakes,
    mistakes_with_masks,
    several_heads,
    softmaxes,
    special_cases,
)
from symattn.variants.claims.claim import Claim

_THEMES = (
    special_cases,
    softmaxes,
    comparisons,
    key_blocks,
    masking,
    additive_masks,
    several_heads,
    mistakes,
    mistakes_with_masks,
)

CLAIMS = {claim.name: claim for theme in _THEMES for claim in theme.CLAIMS}


def theorems() -> tuple[str, ...]:
    """Return the name of every theorem.

    >>> "softmax_ignores_a_shift" in theorems()
    True
    """
    return tuple(name for name, claim in CLAIMS.items() if claim.expected == "proved")


def false_claims() -> tuple[str, ...]:
    """Return the name of every claim that is false: mistakes, each with numbers that refute it.

    >>> import symattn as sa
    >>> "softmax_over_the_queries" in sa.false_claims()
    True
    >>> sa.theorem("softmax_over_the_queries").prove().verdict
    'refuted'
    """
    return tuple(name for name, claim in CLAIMS.items() if claim.expected == "refuted")


def theorem(name: str) -> Claim:
    """Return a theorem, or a false claim, by its name.

    >>> import symattn as sa
    >>> claim = sa.theorem("two_fourth_roots_are_the_scale")
    >>> print(claim.equations[0].text())
    V Softmax((K / d_k^(1/4))ᵀ (Q / d_k^(1/4))) = V Softmax(KᵀQ / √d_k)
    >>> outcome = claim.prove()
    >>> outcome.verdict, outcome.check()
    ('proved', True)

    Raises `UnknownNameError`, which suggests the nearest names, for an unknown one.
    """
    return named("theorem", name, CLAIMS)
