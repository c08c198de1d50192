"""The laws, by theme, and all of them by name.

To add one, write it in the file of its theme: two sides, a mistake, a reason, and the rewriting of
one node.  The tests run over `LAWS`, so an incomplete entry fails on the day it is added.
"""

from symattn.proof.laws.additive_masks import ADDITIVE_MASKS
from symattn.proof.laws.arithmetic import DISTRIBUTING, GATHERING
from symattn.proof.laws.functions import FUNCTION_LAWS
from symattn.proof.laws.identities import IDENTITIES
from symattn.proof.laws.law import Law
from symattn.proof.laws.merging import MERGING
from symattn.proof.laws.over_heads import HEADS
from symattn.proof.laws.pairs import BLOCKS
from symattn.proof.laws.softmaxes import SOFTMAXES
from symattn.proof.laws.transposes import TRANSPOSES

LAWS: dict[str, Law] = {
    **TRANSPOSES,
    **SOFTMAXES,
    **MERGING,
    **ADDITIVE_MASKS,
    **IDENTITIES,
    **FUNCTION_LAWS,
    **BLOCKS,
    **HEADS,
    **GATHERING,
    **DISTRIBUTING,
}
