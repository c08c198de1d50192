"""JAX's arrays, and its tracers under `jit`, `vmap`, `grad` and export with symbolic shapes."""

from typing import Annotated, Any

import numpy as np
import pytest

import symattn as sa

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp: Any = jax.numpy
jaxtyping: Any = pytest.importorskip("jaxtyping")

n, m, d_k, d_v = 5, 7, 4, 3


def attend(Q: Any, K: Any, V: Any) -> Any:
    return V @ jax.nn.softmax(K.T @ Q, axis=0)


attend.__annotations__ = {
    "Q": jaxtyping.Float[jaxtyping.Array, "d_k n"],
    "K": Annotated[jax.Array, "d_k m"],
    "V": jaxtyping.Float[jaxtyping.Array, "d_v m"],
    "return": jaxtyping.Float[jaxtyping.Array, "d_v n"],
}
Q, K, V = jnp.zeros((d_k, n)), jnp.zeros((d_k, m)), jnp.zeros((d_v, m))


@pytest.mark.parametrize(
    "checked",
    [
        sa.shapecheck(attend),
        jax.jit(sa.shapecheck(attend)),
        sa.shapecheck(jax.jit(attend)),
        jax.vmap(sa.shapecheck(attend)),
    ],
    ids=["alone", "under jit", "over jit", "under vmap"],
)
def test_calls_are_checked(checked: Any, request: pytest.FixtureRequest) -> None:
    mapped = "vmap" in request.node.callspec.id
    q, k, v = (jnp.stack([x, x]) if mapped else x for x in (Q, K, V))
    assert checked(q, k, v).shape[-2:] == (d_v, n)
    with pytest.raises(sa.ShapeCheckError, match="K looks transposed") as raised:
        checked(q, jnp.swapaxes(k, -1, -2), v)
    assert "K.T" in str(raised.value)


def test_a_gradient_goes_through() -> None:
    checked = sa.shapecheck(attend)
    assert jax.grad(lambda q: checked(q, K, V).sum())(Q).shape == (d_k, n)


def test_kinds_of_dtypes_are_honoured() -> None:
    checked = sa.shapecheck(attend)
    assert checked(Q, K, V.astype(jnp.bfloat16)).shape == (d_v, n)
    with pytest.raises(sa.TypeCheckError, match="int32"):
        checked(Q, K, V.astype(int))
    with pytest.raises(sa.TypeCheckError, match=r"jax\.Array"):
        checked(np.zeros((d_k, n)), K, V)

    def draw(key: Any, n: int) -> Any:
        return jax.random.normal(key, (n,))

    draw.__annotations__ = {
        "key": jaxtyping.Key[jaxtyping.Array, ""],
        "n": int,
        "return": jaxtyping.Float[jaxtyping.Array, "n"],
    }
    checked = sa.shapecheck(draw)
    assert checked(jax.random.key(0), 3).shape == (3,)
    with pytest.raises(sa.TypeCheckError):
        checked(jnp.zeros(()), 3)


def test_symbolic_shapes_go_through() -> None:
    export = pytest.importorskip("jax.export")
    a, b, c, d = export.symbolic_shape("a, b, c, d")
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((a, b), (a, c), (d, c))]
    exported = export.export(jax.jit(sa.shapecheck(attend)))(*shapes)
    assert str(exported.out_avals[0].shape) == "(d, b)"
