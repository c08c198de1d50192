"""The matrices on which laws are stated; their sizes differ pairwise, so that none fits by chance.

Square ones stand only where a mistake would not fit otherwise.
"""

from __future__ import annotations

from symattn.nodes.inputs import identity, matrix, vector
from symattn.nodes.scalars import scalar

p, q, r, s = "p", "q", "r", "s"

A = matrix("A", p, q)
A2 = matrix("A'", p, q)
A3 = matrix("A''", p, q)
B = matrix("B", q, r)
B2 = matrix("B'", q, r)
C = matrix("C", r, s)
M = matrix("M", p, p)
N = matrix("N", p, p)
x = vector("x", p)
y = vector("y", q)
c = scalar("c", positive=True)
e = scalar("e", positive=True)
I = identity(p)
