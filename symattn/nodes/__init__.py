"""Matrix expressions: one class an operation, tags checked when it is built."""

from symattn.nodes.algebra import (
    Hadamard,
    MatrixProduct,
    MatrixSum,
    Negated,
    Quotient,
    Transposed,
    hadamard,
)
from symattn.nodes.along_axis import MaxAlong, Softmax, max, softmax
from symattn.nodes.core import Node
from symattn.nodes.elementwise import (
    Elementwise,
    cos,
    exp,
    function,
    log,
    reciprocal,
    relu,
    sigmoid,
    silu,
    sin,
    softplus,
    sqrt,
    square,
    tanh,
)
from symattn.nodes.given import assuming
from symattn.nodes.inputs import (
    IdentityMatrix,
    InputMatrix,
    InputVector,
    Ones,
    identity,
    matrix,
    ones,
    vector,
)
from symattn.nodes.program import Program
from symattn.nodes.scalars import Scalar, scalar
from symattn.nodes.sizes import Dim, dim, dims

__all__ = [
    "Dim",
    "Elementwise",
    "Hadamard",
    "IdentityMatrix",
    "InputMatrix",
    "InputVector",
    "MatrixProduct",
    "MatrixSum",
    "MaxAlong",
    "Negated",
    "Node",
    "Ones",
    "Program",
    "Quotient",
    "Scalar",
    "Softmax",
    "Transposed",
    "assuming",
    "cos",
    "dim",
    "dims",
    "exp",
    "function",
    "hadamard",
    "identity",
    "log",
    "matrix",
    "max",
    "ones",
    "reciprocal",
    "relu",
    "scalar",
    "sigmoid",
    "silu",
    "sin",
    "softmax",
    "softplus",
    "sqrt",
    "square",
    "tanh",
    "vector",
]
