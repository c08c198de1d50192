"""Running formulas: a plan, readable source from it, and a function whose calls are checked.

* `signature`: the inputs, checked against the formula; `targets`: the array libraries, a row each;
* `steps`, `plan`: what is computed, in which order, in whose memory; `results`: what is returned;
* `lowerings`, `masked`, `pairs`, `writer`: steps as statements; `opening`, `emit`: their module;
* `blocked`, `kin`, `distributed`, `in_blocks`: weighted sums in blocks, with a softmax and without;
* `reading`, `tiles`: their scores as tiles of one block;
* `block_code`, `tile_code`, `in_place`, `key_ranges`: those as statements, which call
* `strips`, `softmax_sums`, `plain_sums`, `spans`: the loops over blocks, which source imports;
* `plans`, `choice`: whole matrices or blocks, as suits the sizes of a call;
* `arrays`, `scalars`, `destination`, `call`: what a call is checked for before any work is done;
* `conversions`: boolean masks from and to those of other libraries;
* `gpu`: kernels, the score of one pair as text, and what there is to run them with;
* `generated`: `lambdify`, the only place where source is run; `shown`: what its functions print;
* `saved`, `checks`: a function as a module that needs no symattn.

The loops over blocks, `choice` and `checks` run without symattn: such modules have copies of them.
"""

from symattn.codegen.conversions import (
    additive_from_keep,
    keep_from_additive,
    keep_from_excluded,
)
from symattn.codegen.generated import GeneratedFunction, lambdify
from symattn.codegen.gpu.score_modules import score_code

__all__ = [
    "GeneratedFunction",
    "additive_from_keep",
    "keep_from_additive",
    "keep_from_excluded",
    "lambdify",
    "score_code",
]
