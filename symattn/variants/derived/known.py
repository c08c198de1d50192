"""The derivations by name: `derivations` lists them, `derivation` builds one."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from symattn.tags import named
from symattn.variants.derived.chains import Derivation
from symattn.variants.derived.head_costs import cost_of_heads
from symattn.variants.derived.jacobian import softmax_jacobian
from symattn.variants.derived.saturation import saturation
from symattn.variants.derived.variance import variance_of_scores

DERIVATIONS: dict[str, Callable[[], Derivation]] = {
    build.__name__: build
    for build in (variance_of_scores, softmax_jacobian, saturation, cost_of_heads)
}


def derivations() -> tuple[str, ...]:
    """Return the name of every derivation: arguments that are no proofs, checked on numbers.

    >>> derivations()
    ('variance_of_scores', 'softmax_jacobian', 'saturation', 'cost_of_heads')
    """
    return tuple(DERIVATIONS)


def derivation(name: str) -> Derivation:
    """Return a derivation: named steps outside the proofs, each of them checked on numbers.

    >>> import symattn as sa
    >>> d = sa.derivation("variance_of_scores")
    >>> d.steps[-1].before, d.steps[-1].after, d.steps[-1].rule
    (Var(Sum(k[c]*q[c], (c, 1, d_k)))/d_k, 1, 'variance of a score')
    >>> bool(d.check())
    True
    >>> d.experiment(d_k=[4], samples=1000).columns[0]
    'd_k'

    It has a ``title``, ``assumptions``, ``chains`` of ``steps`` and a ``conclusion``, and prints
    itself by ``text()`` and ``latex()``.  Raises `UnknownNameError`, which suggests the nearest
    names, for an unknown derivation.
    """
    return _built(named("derivation", name, DERIVATIONS))


@lru_cache
def _built(build: Callable[[], Derivation]) -> Derivation:
    return build()
