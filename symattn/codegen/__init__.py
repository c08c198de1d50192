"""Running formulas: a plan, readable source from it, and a function whose calls are checked.

* `signature`: the inputs, checked against the formula; `targets`: the array libraries, a row each;
* `steps`, `plan`: what is computed, in which order, in whose memory;
* `lowerings`, `masked`, `pairs`, `emit`: each step as statements, and the module that they make;
* `blocked`, `reading`, `tiles`: weighted sums in blocks, and their scores as tiles of one block;
* `block_code`, `tile_code`, `key_ranges`: those as statements, which call `strips` and `spans`;
* `plans`: whole matrices or blocks, as suits the sizes of a call;
* `arrays`, `scalars`, `call`: what a call is checked for before any work is done;
* `conversions`: boolean masks from and to those of other libraries;
* `generated`: `lambdify`, the only place where source is run.
"""

from symattn.codegen.conversions import (
    additive_from_keep,
    keep_from_additive,
    keep_from_excluded,
)
from symattn.codegen.generated import GeneratedFunction, lambdify

__all__ = [
    "GeneratedFunction",
    "additive_from_keep",
    "keep_from_additive",
    "keep_from_excluded",
    "lambdify",
]
