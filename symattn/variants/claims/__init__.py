"""Named claims about attention: theorems, and mistakes with the numbers that refute them.

* `claim`: `Claim`, its equations, and the outcome of proving it;
* `written`: formulas written once, as columns, and read in either layout;
* `special_cases`, `softmaxes`, `comparisons`, `key_blocks`, `masking`: the theorems, by theme;
* `mistakes`, `mistakes_with_masks`: the false claims;
* `registry`: all by name.

Adding a claim is adding an entry to the ``CLAIMS`` of its theme; tests go over every entry.
"""

from symattn.variants.claims.claim import Claim, Equation, Outcome
from symattn.variants.claims.registry import CLAIMS, false_claims, theorem, theorems

__all__ = ["CLAIMS", "Claim", "Equation", "Outcome", "false_claims", "theorem", "theorems"]
