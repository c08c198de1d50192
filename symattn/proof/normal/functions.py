"""The proof normal form: functions of polynomials.

``exp`` is one factor for each term of its argument, so that shift invariance, a subtracted
maximum and exp over its sum need no law of their own.
"""

from __future__ import annotations

from fractions import Fraction

from symattn.meaning.functions import FUNCTIONS
from symattn.proof.normal.arithmetic import ONE, Arithmetic, rebuilds
from symattn.proof.normal.atoms import Key, Monomial, Polynomial
from symattn.proof.normal.labelling import Symmetry


class Functions(Arithmetic):
    """Exponentials, logarithms and opaque functions."""

    def exp(self, polynomial: Polynomial) -> Polynomial:
        """Return the exponential: one factor for each term, its coefficient as the power."""
        factors: list[tuple[Key, Fraction]] = []
        roots = self.number(1)
        for monomial, coefficient in self.cancelled(polynomial).items():
            logarithm = self._logarithm(monomial)
            if logarithm is not None:
                roots = self.multiply(roots, self.power(self.opened(logarithm)[0], coefficient))
                continue
            signed = any(self.bases[base].symmetry.odd for (base, _), _ in monomial)
            close = self.oriented if signed else self.plain
            sign, closure, args, symmetry = close({monomial: ONE})
            # A change of sign in the argument inverts the exponential: no odd symmetry is kept.
            base = self.base("exp", closure, positive=True, symmetry=Symmetry(symmetry.even))
            factors.append(((base, args), sign * coefficient))
        return self.multiply(roots, self.product_of(factors))

    def _logarithm(self, monomial: Monomial) -> Key | None:
        """Return the logarithm that a monomial is, if it is one: ``e^{c log P}`` is ``P^c``."""
        if len(monomial) != 1:
            return None
        ((key, power),) = monomial
        base = self.bases[key[0]]
        is_log = power == 1 and base.kind == "function" and base.content[0] == "log"
        return key if is_log else None

    def function(self, name: str, polynomial: Polynomial) -> Polynomial:
        """Return an elementwise function that has no definition, or the exponential."""
        if name == "exp":
            return self.exp(polynomial)
        polynomial = self.cancelled(polynomial)
        row = FUNCTIONS.get(name)
        if name == "log" and self.positive(polynomial):
            return self._log(polynomial)
        if row is not None and row.odd and not polynomial:
            return {}
        signed = row is not None and (row.odd or row.even)
        sign, closure, args, symmetry = (self.oriented if signed else self.plain)(polynomial)
        if row is not None and row.even:
            sign, symmetry = 1, Symmetry(symmetry.even + symmetry.odd)
        positive = row is not None and row.positive
        base = self.base("function", (name, closure), positive=positive, symmetry=symmetry)
        return self.scale(self.atom(base, args), Fraction(sign))

    def _log(self, polynomial: Polynomial) -> Polynomial:
        """Return the logarithm of something positive: a sum over its positive factors."""
        content, monomial, rest = self.content(polynomial, Fraction(1, 2))
        if len(rest) == 1:
            ((left, coefficient),) = rest.items()
            content, monomial, rest = content * coefficient, monomial | left, {}
        result: Polynomial = {}
        for (base, args), power in (*monomial, *self.primes(content, ONE)):
            if self.bases[base].kind == "exp":
                part = self.opened((base, args))[0]
            else:
                part = self._opaque_log(self.atom(base, args))
            self.accumulate(result, part, power)
        return self.add(result, self._opaque_log(rest)) if rest else result

    def _opaque_log(self, polynomial: Polynomial) -> Polynomial:
        _, closure, args, symmetry = self.plain(polynomial)
        return self.atom(self.base("function", ("log", closure), symmetry=symmetry), args)


@rebuilds("exp")
def _rebuilt_exp(algebra: Functions, key: Key) -> Polynomial:
    return algebra.exp(algebra.opened(key)[0])


@rebuilds("function")
def _rebuilt_function(algebra: Functions, key: Key) -> Polynomial:
    name, _ = algebra.bases[key[0]].content
    return algebra.function(name, algebra.opened(key)[0])
