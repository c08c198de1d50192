"""Derivations: arguments about attention that no proof of formulas covers, step by step.

An expectation, a limit, a count of operations lies outside what `symattn.proof` decides.  Such an
argument is kept as data: expressions of SymPy, a named rule between one and the next, and an
experiment.  It is called a derivation and not a proof, and everything in it is checked on numbers.

* `expectations`, `sums`: the rules, functions from expression to expression;
* `values`: what an expression is in numbers, found without these rules;
* `chains`: steps, `Derivation`, and checking; `experiments`: what an experiment found;
* `variance`, `jacobian`, `saturation`, `head_costs`: one derivation each; `counting`: attention
  that counts its operations;
* `writing`: expressions as text and LaTeX; `known`: the derivations by name.

To add one, write its file and enter it in `known`; tests go over every entry.
"""

from symattn.variants.derived.chains import Derivation
from symattn.variants.derived.known import derivation, derivations

__all__ = ["Derivation", "derivation", "derivations"]
