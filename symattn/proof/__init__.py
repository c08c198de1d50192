"""Proofs: a deciding normal form, an evaluator that guards it, and readable steps."""

from symattn.proof.decide import prove
from symattn.proof.results import Proof
from symattn.proof.translation import Translation, translate

__all__ = ["Proof", "Translation", "prove", "translate"]
