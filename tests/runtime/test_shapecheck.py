"""What may be decorated, and that it stays what it was: kinds of functions, classes, frameworks."""

import asyncio
import copy
import functools
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import pytest

import symattn as sa

n, m, d_k, d_v, h = 5, 7, 4, 3, 2
Array = np.ndarray
Rows = Annotated[np.ndarray, "n d"]


def array(*shape: int) -> Array:
    return np.zeros(shape)


Q, K, V, R = array(d_k, n), array(d_k, m), array(d_v, m), array(d_v, n)


@sa.shapecheck
def attend(
    Q: Annotated[np.ndarray, "d_k n"],
    K: Annotated[np.ndarray, "d_k m"],
    V: Annotated[np.ndarray, "d_v m"],
) -> Annotated[np.ndarray, "d_v n"]:
    """Attention without its softmax."""
    return V @ (K.T @ Q)


def test_a_right_call_goes_through() -> None:
    assert attend(Q, K, V).shape == (d_v, n)
    assert attend(Q, V=V, K=K).shape == (d_v, n)


@pytest.mark.parametrize(
    "given",
    [(Q, K.T, V), (Q, K, V.T), (Q[0], K, V), (Q, array(d_k, m + 1), V), (Q, K, [1.0])],
    ids=["K transposed", "V transposed", "a vector", "another m", "a list"],
)
def test_a_wrong_call_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises((sa.ShapeCheckError, sa.TypeCheckError)):
        attend(*given)


def test_a_wrong_result_is_refused() -> None:
    @sa.shapecheck("Q: d_k n, K: d_k m -> m n")
    def scores(Q: Any, K: Any) -> Any:
        return Q.T @ K

    with pytest.raises(sa.ShapeCheckError, match="the result") as raised:
        scores(Q, K)
    assert raised.value.culprits == ("the result",)


# -- looks


def test_name_signature_and_documentation_are_kept() -> None:
    inner: Any = inspect.unwrap(attend)
    assert inner is not attend
    assert inspect.signature(attend) == inspect.signature(inner)
    assert attend.__doc__ == "Attention without its softmax."
    assert (attend.__name__, attend.__qualname__) == ("attend", "attend")
    assert attend.__module__ == __name__
    assert attend.__annotations__ == inner.__annotations__


def test_a_wrong_number_of_arguments_fails_as_before() -> None:
    wrong: Any = attend
    with pytest.raises(TypeError, match=r"attend\(\) missing 1 required positional argument: 'V'"):
        wrong(Q, K)
    with pytest.raises(TypeError, match="unexpected keyword argument 'W'"):
        wrong(Q, K, W=V)


def test_every_kind_of_parameter_is_passed_on() -> None:
    @sa.shapecheck
    def f(a: Rows, /, b: int = 1, *rest: Rows, c: str, u: float = 0.5, **more: Any) -> Any:
        return a, b, rest, c, u, more

    x = array(n, 3)
    assert f(x, c="c")[1:] == (1, (), "c", 0.5, {})
    assert f(x, 2, x, x, c="c", u=1.5, e=3)[1:] == (2, (x, x), "c", 1.5, {"e": 3})
    assert inspect.signature(f) == inspect.signature(inspect.unwrap(f))
    for wrong in ((x, 2, x, array(n, 4)), (x, "2")):
        with pytest.raises((sa.ShapeCheckError, sa.TypeCheckError)):
            f(*wrong, c="c")  # pyright: ignore[reportArgumentType]
    with pytest.raises(sa.TypeCheckError, match="c is a Python int"):
        f(x, c=3)  # pyright: ignore[reportArgumentType]


def test_parameters_may_be_called_what_the_source_uses() -> None:
    @sa.shapecheck("checked: n sizes, unchecked: n fits, STATE: n own -> sizes fits")
    def f(checked: Any, unchecked: Any, STATE: Any, result: Any = None, error: Any = None) -> Any:
        return checked.T @ unchecked

    assert f(array(5, 2), array(5, 3), array(5, 4)).shape == (2, 3)
    with pytest.raises(sa.ShapeCheckError):
        f(array(5, 2), array(5, 3), array(6, 4))


def test_pickle_finds_the_checked_function() -> None:
    assert pickle.loads(pickle.dumps(attend)) is attend
    assert copy.deepcopy(attend) is attend


def test_decorating_twice_changes_nothing() -> None:
    assert sa.shapecheck(attend) is attend


def test_recursion_and_nested_calls() -> None:
    @sa.shapecheck("x: n -> n")
    def halved(x: Any) -> Any:
        if len(x) > 1:
            halved(x[: len(x) // 2])
        return x

    assert halved(array(9)).shape == (9,)


# -- methods, classes, what descriptors make of functions


@sa.shapecheck
class Layer:
    """A layer whose sizes are those of its weights."""

    def __init__(self, W: Annotated[np.ndarray, "d_out d_in"]) -> None:
        self.W = W

    def __call__(
        self, x: Annotated[np.ndarray, "... d_in n"]
    ) -> Annotated[np.ndarray, "... d_out n"]:
        return self.W @ x

    @property
    def weight(self) -> Annotated[np.ndarray, "d_in d_out"]:
        return self.W.T

    @weight.setter
    def weight(self, W: Annotated[np.ndarray, "d_in d_out"]) -> None:
        self.W = W.T

    @functools.cached_property
    def gram(self) -> Annotated[np.ndarray, "d_in d_in"]:
        return self.W.T @ self.W

    @staticmethod
    def norm(x: Annotated[np.ndarray, "d_in"]) -> Annotated[np.ndarray, ""]:
        return np.float64(0.5)  # pyright: ignore[reportReturnType]

    @classmethod
    def of(cls, W: Annotated[np.ndarray, "d_in d_out"]) -> Self:
        return cls(W.T)

    def helper(self) -> int:
        return 1


def test_sizes_of_the_constructor_hold_in_every_method() -> None:
    layer = Layer(array(3, 4))
    assert layer(array(2, 4, 5)).shape == (2, 3, 5)
    with pytest.raises(sa.ShapeCheckError) as raised:
        layer(array(6, 5))
    assert "d_in = 4 (W of Layer())" in str(raised.value)
    other = Layer(array(2, 6))
    assert other(array(6, 5)).shape == (2, 5)


def test_properties_and_methods_of_every_kind_are_checked() -> None:
    layer = Layer.of(array(4, 3))
    assert layer.weight.shape == (4, 3)
    assert layer.gram.shape == (4, 4)
    assert Layer.norm(array(9)) == 0.5
    layer.weight = array(4, 3)
    with pytest.raises(sa.ShapeCheckError):
        layer.weight = array(3, 4)
    with pytest.raises(sa.ShapeCheckError):
        Layer.norm(array(9, 2))
    layer.W = array(5, 4)
    with pytest.raises(sa.ShapeCheckError, match="the result"):
        _ = layer.weight


def test_sizes_are_copied_and_pickled_with_the_instance() -> None:
    layer = Layer(array(3, 4))
    for twin in (copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        with pytest.raises(sa.ShapeCheckError):
            twin(array(6, 5))


def test_a_constructor_that_fails_binds_nothing() -> None:
    layer = Layer(array(3, 4))
    with pytest.raises(sa.ShapeCheckError):
        layer.__init__(array(3))
    assert layer(array(4, 5)).shape == (3, 5)
    layer.__init__(array(2, 6))  # constructed again, for other sizes
    assert layer(array(6, 5)).shape == (2, 5)


class Sub(Layer):
    @sa.shapecheck
    def __init__(self, W: Annotated[np.ndarray, "d_out d_in"], b: Annotated[np.ndarray, "d_b"]):
        self.b = b
        super().__init__(W[:-1] if len(b) == 1 else W)

    @sa.shapecheck
    def add(self, x: Annotated[np.ndarray, "d_b d_in"]) -> None: ...


def test_a_class_sees_its_own_sizes_and_those_that_it_inherits() -> None:
    sub = Sub(array(3, 4), array(5))
    sub.add(array(5, 4))
    for wrong in (array(3, 4), array(5, 3)):
        with pytest.raises(sa.ShapeCheckError):
            sub.add(wrong)
    other = Sub(array(3, 4), array(1))  # for the base, which is given less, d_out is 2
    assert other(array(4, 5)).shape == (2, 5)


@sa.shapecheck
class Gated(Layer):
    """d_in is one size here, and twice that in the class that it inherits from."""

    def __init__(self, d_in: int) -> None:
        super().__init__(array(3, 2 * d_in))

    def gate(self, x: Annotated[np.ndarray, "d_in n"]) -> Annotated[np.ndarray, "d_out n"]:
        return super().__call__(np.concatenate([x, x]))


def test_one_name_may_be_two_sizes_in_two_classes() -> None:
    gated = Gated(2)
    assert gated.gate(array(2, 5)).shape == (3, 5)
    with pytest.raises(sa.ShapeCheckError):
        gated.gate(array(4, 5))
    with pytest.raises(sa.ShapeCheckError):
        gated(array(2, 5))


@sa.shapecheck
class Slotted:
    __slots__ = ("__weakref__", "x")

    def __init__(self, x: Annotated[np.ndarray, "n"]) -> None:
        self.x = x

    def same(self, y: Annotated[np.ndarray, "n"]) -> None: ...


def test_instances_with_slots_have_sizes_too() -> None:
    one, other = Slotted(array(3)), Slotted(array(4))
    one.same(array(3))
    with pytest.raises(sa.ShapeCheckError):
        other.same(array(3))


@sa.shapecheck
@dataclass(frozen=True)
class Weights:
    W_Q: Annotated[np.ndarray, "d h*d_k"]
    W_K: Annotated[np.ndarray, "d h*d_k"]
    h: int
    extra: list[Annotated[np.ndarray, "d d"]] = field(default_factory=list)

    def heads(self, X: Annotated[np.ndarray, "n d"]) -> Annotated[np.ndarray, "h n d_k"]:
        return (X @ self.W_Q).reshape(len(X), self.h, -1).swapaxes(0, 1)


def test_a_dataclass_is_checked_where_it_is_constructed() -> None:
    weights = Weights(array(12, 6), array(12, 6), h=3)
    assert weights.heads(array(5, 12)).shape == (3, 5, 2)
    with pytest.raises(sa.ShapeCheckError):
        Weights(array(12, 6), array(12, 6), h=4)
    with pytest.raises(sa.ShapeCheckError):
        Weights(array(12, 6), array(12, 6), 3, [array(12, 12), array(12, 13)])
    with pytest.raises(sa.ShapeCheckError):
        weights.heads(array(5, 11))


def test_a_dataclass_as_an_argument_is_looked_into() -> None:
    @sa.shapecheck
    def project(X: Annotated[np.ndarray, "n d"], w: Weights) -> Annotated[np.ndarray, "n h*d_k"]:
        return X @ w.W_Q

    weights = Weights(array(12, 6), array(12, 6), h=3)
    assert project(array(5, 12), weights).shape == (5, 6)
    with pytest.raises(sa.ShapeCheckError):
        project(array(5, 11), weights)


class Config:
    def __init__(self, d_model: Any) -> None:
        self.d_model = d_model


class Referring:
    def __init__(self, config: Any, heads: int) -> None:
        self.config, self.heads = config, heads

    @sa.shapecheck
    def split(
        self, X: Annotated[np.ndarray, "n {self.config.d_model}"]
    ) -> Annotated[np.ndarray, "{self.heads} n {self.config.d_model}//{self.heads}"]:
        return X.reshape(len(X), self.heads, -1).swapaxes(0, 1)


def test_attributes_give_sizes() -> None:
    layer = Referring(Config(12), 3)
    assert layer.split(array(5, 12)).shape == (3, 5, 4)
    with pytest.raises(sa.ShapeCheckError) as raised:
        layer.split(array(5, 13))
    assert "self.config.d_model" in str(raised.value)
    assert Referring(Config(np.int64(12)), 3).split(array(5, 12)).shape == (3, 5, 4)
    for no_size in (12.0, True, None, "12"):
        with pytest.raises(sa.SpecError, match=r"self\.config\.d_model"):
            Referring(Config(no_size), 3).split(array(5, 12))  # pyright: ignore[reportArgumentType]
    with pytest.raises(sa.SpecError, match="has no attribute d_model"):
        Referring(object(), 3).split(array(5, 12))


def test_attributes_of_what_is_no_parameter_are_refused_at_once() -> None:
    with pytest.raises(sa.SpecError, match="slf"):

        @sa.shapecheck
        def f(self: Any, X: Annotated[np.ndarray, "n {slf.d}"]) -> None: ...


# -- generators and coroutines


def test_a_generator_stays_one_and_what_it_yields_is_checked() -> None:
    @sa.shapecheck
    def rows(X: Annotated[np.ndarray, "n d"]) -> Iterator[Annotated[np.ndarray, "d"]]:
        yield from X
        yield X[0, :-1]

    assert inspect.isgeneratorfunction(rows)
    given = rows(array(2, 3))
    assert next(given).shape == next(given).shape == (3,)
    with pytest.raises(sa.ShapeCheckError, match="yielded"):
        next(given)


def test_send_throw_close_and_return_reach_the_generator() -> None:
    log: list[Any] = []

    @sa.shapecheck
    def echo(
        X: Annotated[np.ndarray, "n"],
    ) -> Generator[Annotated[np.ndarray, "n"], Any, Annotated[np.ndarray, "n n"]]:
        try:
            while True:
                try:
                    sent = yield X
                except KeyError as error:
                    sent = error
                log.append(sent)
                if sent == "stop":
                    return np.outer(X, X)
        finally:
            log.append("closed")

    running = echo(array(3))
    next(running)
    running.send(1)
    running.throw(KeyError("k"))
    with pytest.raises(StopIteration) as stopped:
        running.send("stop")
    assert stopped.value.value.shape == (3, 3)
    other = echo(array(3))
    next(other)
    other.close()
    assert [str(entry) for entry in log] == ["1", "'k'", "stop", "closed", "closed"]


def test_sizes_of_two_generators_do_not_mix() -> None:
    @sa.shapecheck
    def sizes(X: Annotated[np.ndarray, "n"]) -> Iterator[int]:
        while True:
            yield sa.bindings()["n"]  # pyright: ignore[reportReturnType]

    one, other = sizes(array(3)), sizes(array(4))
    assert [next(one), next(other), next(one), next(other)] == [3, 4, 3, 4]


def test_coroutines_keep_their_sizes_over_await_and_in_tasks() -> None:
    @sa.shapecheck
    async def size(X: Annotated[np.ndarray, "n"], turns: int) -> Annotated[np.ndarray, "n"]:
        for _ in range(turns):
            await asyncio.sleep(0)
            assert sa.bindings()["n"] == len(X)

        async def inner() -> Any:
            await asyncio.sleep(0)
            return sa.bindings()["n"], await asyncio.to_thread(lambda: sa.bindings()["n"])

        assert await asyncio.create_task(inner()) == (len(X), len(X))
        return X

    async def main() -> None:
        given = [array(k) for k in range(2, 9)]
        results = await asyncio.gather(*(size(x, 3 + len(x) % 3) for x in given))
        assert [r.shape for r in results] == [x.shape for x in given]
        with pytest.raises(sa.ShapeCheckError):
            await size(array(2, 3), 1)
        with pytest.raises(sa.NoBindingsError):
            sa.bindings()

    assert inspect.iscoroutinefunction(size)
    asyncio.run(main())


def test_a_wrong_result_of_a_coroutine_is_refused() -> None:
    @sa.shapecheck
    async def wrong(X: Annotated[np.ndarray, "n d"]) -> Annotated[np.ndarray, "d n"]:
        return X

    with pytest.raises(sa.ShapeCheckError, match="the result"):
        asyncio.run(wrong(array(2, 3)))


def test_asynchronous_generators_hand_everything_on() -> None:
    log: list[Any] = []

    @sa.shapecheck
    async def rows(X: Annotated[np.ndarray, "n d"]) -> AsyncIterator[Annotated[np.ndarray, "d"]]:
        try:
            for row in X:
                try:
                    log.append((yield row))
                except KeyError:
                    log.append("thrown")
                assert sa.bindings()["d"] == 3
            yield X[0, :-1]
        finally:
            log.append("closed")

    async def main() -> None:
        given: Any = rows(array(3, 3))
        assert (await anext(given)).shape == (3,)
        await given.asend("sent")
        await given.athrow(KeyError())
        with pytest.raises(sa.ShapeCheckError, match="yielded"):
            await anext(given)
        given = rows(array(3, 3))
        await anext(given)
        await given.aclose()

    assert inspect.isasyncgenfunction(rows)
    asyncio.run(main())
    assert log == ["sent", "thrown", None, "closed", "closed"] or log[:2] == ["sent", "thrown"]


# -- threads


def test_threads_do_not_see_each_others_sizes() -> None:
    barrier = threading.Barrier(4)

    @sa.shapecheck("x: n")
    def size(x: Any) -> Any:
        barrier.wait()
        return sa.bindings()["n"]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(size, map(array, (2, 3, 4, 5)))) == [2, 3, 4, 5]


def test_a_thread_that_the_body_starts_is_given_the_sizes() -> None:
    @sa.shapecheck("Q: d_k n, K: d_k m -> m n")
    def scores(Q: Any, K: Any) -> Any:
        sizes = sa.bindings()

        def column(i: int) -> Any:
            with pytest.raises(sa.NoBindingsError):
                sa.bindings()
            with pytest.raises(sa.ShapeCheckError):
                sa.expect(Q, "m n", within=sizes)
            return sa.expect(K.T @ Q[:, i], "m", within=sizes)

        with ThreadPoolExecutor(2) as pool:
            return np.stack(list(pool.map(column, range(Q.shape[1]))), axis=1)

    assert scores(Q, K).shape == (m, n)


# -- what wraps functions


def test_partial_over_and_under() -> None:
    @sa.shapecheck
    def split(x: Annotated[np.ndarray, "n h*d_k"], h: int) -> Annotated[np.ndarray, "n h d_k"]:
        return x.reshape(len(x), h, -1)

    assert functools.partial(split, h=3)(array(5, 12)).shape == (5, 3, 4)
    unchecked: Any = inspect.unwrap(split)
    halves = sa.shapecheck(functools.partial(unchecked, h=2))
    assert isinstance(halves, functools.partial)
    assert halves(array(5, 12)).shape == (5, 2, 6)
    with pytest.raises(sa.ShapeCheckError, match="leaves"):
        halves(array(5, 13))


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


def test_over_and_under_another_decorator() -> None:
    def dot(x: Annotated[np.ndarray, "n"], y: Annotated[np.ndarray, "n"]) -> Any:
        return x @ y

    for checked in (
        sa.shapecheck(logged(dot)),
        logged(sa.shapecheck(dot)),
        sa.shapecheck(logged(sa.shapecheck(dot))),
    ):
        assert checked(array(3), array(3)) == 0
        with pytest.raises(sa.ShapeCheckError):
            checked(array(3), array(4))


class Compiled:
    """What a `jit` gives back: an object that can be called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)  # pyright: ignore[reportAttributeAccessIssue]


def test_over_and_under_an_object_that_can_be_called() -> None:
    def dot(x: Annotated[np.ndarray, "n"], y: Annotated[np.ndarray, "n"]) -> Any:
        return x @ y

    for checked in (sa.shapecheck(Compiled(dot)), Compiled(sa.shapecheck(dot))):
        assert checked(array(3), y=array(3)) == 0
        with pytest.raises(sa.ShapeCheckError):
            checked(array(3), array(4))


def test_a_context_manager_is_checked_beneath_its_decorator() -> None:
    @contextmanager
    @sa.shapecheck
    def opened(x: Annotated[np.ndarray, "n n"]) -> Iterator[Annotated[np.ndarray, "n"]]:
        yield x[0]

    with opened(array(3, 3)) as row:
        assert row.shape == (3,)
    with pytest.raises(sa.ShapeCheckError), opened(array(3, 4)):
        pass


# -- structures


class Pair(NamedTuple):
    K: Annotated[np.ndarray, "d m"]
    V: Annotated[np.ndarray, "d m"]


@sa.shapecheck
def cached(
    q: Annotated[np.ndarray, "d"],
    cache: Pair | None = None,
    layers: list[Annotated[np.ndarray, "d d"]] = [],  # noqa: B006
    pair: tuple[Annotated[np.ndarray, "d"], int] | None = None,
    named: dict[str, Annotated[np.ndarray, "... d"]] | None = None,
) -> tuple[Annotated[np.ndarray, "d"], int]:
    return q, 1


def test_arrays_in_structures_are_all_checked() -> None:
    d = 3
    good = Pair(array(d, m), array(d, m))
    assert cached(array(d), good, [array(d, d)] * 9, (array(d), 1), {"a": array(2, d)})[1] == 1
    for wrong in (
        {"cache": Pair(array(d, m), array(d, m + 1))},
        {"layers": [*[array(d, d)] * 9, array(d, d + 1)]},
        {"pair": (array(d + 1), 1)},
        {"pair": (array(d), "1")},
        {"named": {"a": array(2, d), "b": array(2, d + 1)}},
        {"named": {1: array(2, d)}},
    ):
        with pytest.raises((sa.ShapeCheckError, sa.TypeCheckError), match=next(iter(wrong))):
            cached(array(d), **wrong)  # pyright: ignore[reportArgumentType]


def test_a_default_is_its_authors() -> None:
    @sa.shapecheck
    def f(x: Annotated[np.ndarray, "n"], mask: Annotated[np.ndarray, "n"] = None) -> Any:  # pyright: ignore[reportArgumentType]
        return mask

    assert f(array(3)) is None
    with pytest.raises(sa.ShapeCheckError):
        f(array(3), array(4))


# -- off


def test_what_is_decorated_while_checks_are_off_is_left_alone() -> None:
    def f(x: Annotated[np.ndarray, "n"]) -> None: ...

    class A:
        def f(self, x: Annotated[np.ndarray, "n"]) -> None: ...

    before = A.f
    with sa.config(shapecheck=False):
        assert sa.shapecheck(f) is f
        assert sa.shapecheck("x: n n")(f) is f
        assert sa.shapecheck(A).f is before


def test_a_block_lets_wrong_calls_through() -> None:
    @sa.shapecheck("Q: n, K: n")
    def f(Q: Any, K: Any) -> Any:
        sa.expect(Q, "n n n")
        return 1

    with sa.config(shapecheck=False):
        assert f(array(3), array(4)) == 1
    with pytest.raises(sa.ShapeCheckError):
        f(array(3), array(4))


OPTIMIZED = """
import numpy as np, symattn as sa
assert False, "assertions are off"
@sa.shapecheck("Q: n, K: n")
def f(Q, K): return sa.expect(Q, "n")
f(np.ones(3), np.ones(3))
try:
    f(np.ones(3), np.ones(4))
except sa.ShapeCheckError:
    print("checked")
"""


def test_optimizing_does_not_remove_checks() -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-c", OPTIMIZED], capture_output=True, text=True, check=True
    )
    assert done.stdout == "checked\n"


LIGHT = """
import sys
from symattn import shapecheck, M, expect, bindings, config
@shapecheck("Q: n d")
def f(Q, h: int = 1): return Q
class Array: shape = (3, 4)
f(Array())
loaded = {"sympy", "numpy", "jaxtyping", "beartype", "torch", "click"} & set(sys.modules)
assert not loaded, loaded
"""


def test_checks_load_no_other_package() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True, capture_output=True)


# -- decorating


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("x: h*d_k", "h and d_k do not follow"),
        ("y: n", "no parameter y"),
        ("x: n^^2", "integer exponent"),
        ("x: {x()}", "x"),
    ],
)
def test_what_cannot_be_checked_is_refused_when_it_is_decorated(spec: str, said: str) -> None:
    with pytest.raises(sa.SymattnError, match=said):
        sa.shapecheck(spec)(lambda x: x)


def test_a_function_that_declares_nothing_is_refused() -> None:
    with pytest.raises(sa.SpecError, match="nothing to check"):
        sa.shapecheck(lambda x: x)

    with pytest.raises(sa.SpecError, match="no method declares a shape"):

        @dataclass
        @sa.shapecheck
        class Wrong:
            x: Annotated[np.ndarray, "n"]


def test_what_is_no_function_is_refused() -> None:
    wrong: Any = sa.shapecheck
    with pytest.raises(sa.SpecError, match="only functions and classes"):
        wrong(3)
    with pytest.raises(sa.SpecError, match="a class has many"):
        wrong("x: n")(Layer)


def test_a_method_whose_sizes_nobody_bound_is_refused_at_the_call() -> None:
    class A:
        @sa.shapecheck
        def f(self, x: Annotated[np.ndarray, "h*d_k"]) -> None: ...

    with pytest.raises(sa.SpecError, match="h and d_k cannot be told"):
        A().f(array(12))

    with pytest.raises(sa.SpecError, match="h and d_k do not follow"):

        @sa.shapecheck
        class B:
            def __init__(self, x: Annotated[np.ndarray, "n"]) -> None: ...

            def f(self, x: Annotated[np.ndarray, "h*d_k"]) -> None: ...


@sa.shapecheck
class Sized:
    """A layer that is constructed from sizes alone."""

    def __init__(self, d_model: int, heads: int, eps: float = 1, shift: int = -1) -> None:
        self.W = array(d_model, d_model)

    def __call__(
        self, x: Annotated[np.ndarray, "n d_model"]
    ) -> Annotated[np.ndarray, "heads n d_model//heads"]:
        return (x @ self.W).reshape(len(x), 3, -1).swapaxes(0, 1)


def test_integers_of_a_constructor_are_sizes_of_its_instance() -> None:
    assert Sized(12, 3)(array(5, 12)).shape == (3, 5, 4)
    with pytest.raises(sa.ShapeCheckError, match=r"d_model = 12 \(d_model of Sized\(\)\)"):
        Sized(12, 3)(array(5, 13))
    with pytest.raises(sa.ShapeCheckError, match="the result"):
        Sized(12, 4)(array(5, 12))


def test_a_class_of_integers_alone_declares_no_shape() -> None:
    with pytest.raises(sa.SpecError, match="no method declares a shape"):

        @sa.shapecheck
        class A:
            def __init__(self, n: int) -> None: ...


# -- found by attack


def test_a_slotted_dataclass_is_constructed() -> None:
    @sa.shapecheck
    @dataclass(frozen=True, slots=True)
    class Cache:
        K: Annotated[np.ndarray, "d m"]
        V: Annotated[np.ndarray, "d m"]

    assert Cache(array(2, 3), array(2, 3)).K.shape == (2, 3)
    with pytest.raises(sa.ShapeCheckError):
        Cache(array(2, 3), array(3, 2))

    @sa.shapecheck
    @dataclass(slots=True)
    class Forgetful:
        K: Annotated[np.ndarray, "d m"]

        def read(self, q: Annotated[np.ndarray, "d"]) -> None: ...

    with pytest.warns(sa.UncheckedWarning, match="weakref_slot=True"):
        assert Forgetful(array(2, 3)).K.shape == (2, 3)
    assert Forgetful(array(2, 3)).K.shape == (2, 3)  # said once

    @sa.shapecheck
    @dataclass(slots=True, weakref_slot=True)
    class Kept:
        K: Annotated[np.ndarray, "d m"]

        def read(self, q: Annotated[np.ndarray, "d"]) -> None: ...

    with pytest.raises(sa.ShapeCheckError):
        Kept(array(2, 3)).read(array(3))


class Awkward(Exception):
    function: Any = array(3)

    def add_note(self, note: str) -> None:
        raise RuntimeError(note)


@pytest.mark.parametrize("error", [Awkward("mine"), KeyError("mine")])
def test_the_exception_of_the_body_is_what_leaves(error: Exception) -> None:
    @sa.shapecheck("x: n")
    def f(x: Any) -> Any:
        raise error

    for k in range(2, 30):
        with pytest.raises(type(error), match="mine") as raised:
            f(array(k))
        assert raised.value is error
    assert len(getattr(error, "__notes__", None) or ()) < 10


def test_coroutines_that_end_out_of_order_leave_nothing_bound() -> None:
    @sa.shapecheck
    async def f(x: Annotated[np.ndarray, "n"]) -> Any:
        await asyncio.sleep(0)
        return sa.bindings()["n"]

    first, second, third = f(array(3)), f(array(7)), f(array(8))
    for running in (first, second, third):
        running.send(None)
    for running, size in ((first, 3), (second, 7)):
        with pytest.raises(StopIteration) as stopped:
            running.send(None)
        assert stopped.value.value == size
    with pytest.raises(sa.NoBindingsError):
        sa.bindings()  # one is suspended, and no part of this
    third.close()


def test_a_static_method_has_no_instance() -> None:
    class Merging:
        @sa.shapecheck
        def __init__(self, d: int) -> None: ...

        @staticmethod
        @sa.shapecheck
        def merge(layer: Any, x: Annotated[np.ndarray, "d n"]) -> None: ...

    Merging.merge(Merging(4), array(3, 5))


def test_wrapped_methods_of_a_class_are_checked_and_keep_what_they_offer() -> None:
    @sa.shapecheck
    class Masks:
        @functools.lru_cache  # noqa: B019
        def causal(self, n: int) -> Annotated[np.ndarray, "n n"]:
            return array(n, 2)

        @functools.singledispatchmethod
        def scale(self, x: Any) -> Any:
            raise NotImplementedError

        @scale.register
        def _(self, x: int) -> Annotated[np.ndarray, "3"]:
            return array(x)

    masks = Masks()
    assert masks.causal(2).shape == (2, 2)
    with pytest.raises(sa.ShapeCheckError):
        masks.causal(3)
    assert Masks.causal.cache_info().misses == 2
    assert masks.scale(3).shape == (3,)
    with pytest.raises(sa.ShapeCheckError):
        masks.scale(4)


def test_an_integer_will_do_where_a_float_is_declared() -> None:
    @sa.shapecheck
    def f(x: Rows, scale: float = 1.0, rates: list[float] | None = None) -> Any:
        return scale

    assert f(array(3, 2), 2, [1, 2.5]) == 2
    with pytest.raises(sa.TypeCheckError):
        f(array(3, 2), "2")  # pyright: ignore[reportArgumentType]


def test_classes_in_a_class_and_what_a_jit_made_are_checked() -> None:
    @sa.shapecheck
    class Outer:
        class Inner:
            def rows(self, x: Rows) -> None: ...

        @Compiled
        @staticmethod
        def dot(x: Annotated[np.ndarray, "n"], y: Annotated[np.ndarray, "n"]) -> Any:
            return x @ y

        def rows(self, x: Rows) -> None: ...

    Outer.Inner().rows(array(3, 4))
    assert Outer.dot(array(3), array(3)) == 0
    for call in (lambda: Outer.Inner().rows(array(3)), lambda: Outer.dot(array(3), array(4))):
        with pytest.raises(sa.ShapeCheckError):
            call()


def test_nothing_is_consumed() -> None:
    @sa.shapecheck
    def f(pair: tuple[Rows, Rows]) -> None: ...

    given = iter([array(3, 4)] * 3)
    with pytest.raises(sa.TypeCheckError):
        f(given)  # pyright: ignore[reportArgumentType]
    assert len(list(given)) == 3
