"""The proof normal form: equal meanings, whatever they are called and however they are arranged.

Read in this order: ``labelling`` (one name for expressions that differ in the names of indices),
``atoms`` (bases and interned closures), ``arithmetic``, ``functions``, ``truths`` and ``binders``
(whose rules are the laws), ``lowering`` (from index forms, and their comparison).  The conditions
under which each rule is sound stand beside it; `symattn.evaluate` guards all of it from outside.
"""

from symattn.proof.normal.lowering import Comparison, compare

__all__ = ["Comparison", "compare"]
