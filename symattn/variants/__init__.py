"""The known attentions: functions that build formulas, and the catalogue of those with a name.

* `layouts`: tokens as columns or as rows, one table row each;
* `scores`: score functions by name, written in both layouts;
* `attend`: scores, softmax, output; the layout is read off the shapes;
* `sources`: the papers, cited once;
* `signatures`: the types of the attention function and of the score function;
* `known`: `Formula`, what the catalogue gives; `attentions`, `head_entries`: the catalogue, as
  data; `catalogue`: by name;
* `derived`: derivations, arguments that are no proofs, with their checks.
* `claims`: theorems about them, and the mistakes that people make.

Adding a formula is adding an entry; tests go over every entry.
"""

from symattn.variants.attend import attention
from symattn.variants.catalogue import formula, formulas
from symattn.variants.claims import false_claims, theorem, theorems
from symattn.variants.known import Formula

__all__ = [
    "Formula",
    "attention",
    "false_claims",
    "formula",
    "formulas",
    "theorem",
    "theorems",
]
