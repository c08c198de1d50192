"""The switch: what holds where, and that nobody's checks stay off for longer than they asked."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symattn
from symattn.errors import SymattnError
from symattn.errors.settings import SettingError, UnknownSettingError
from symattn.runtime.switch import STATE, config, from_environment

ANY: Any = config  # what the types forbid, and people write all the same
WAIT = 30  # seconds, for a thread that never comes


@pytest.fixture(autouse=True)
def everything_as_before() -> Iterator[None]:
    assert not STATE.unusual
    yield
    assert config.shapecheck, "the test left checks off"
    assert not STATE.unusual, "the test left a block open"


def in_thread(work: Callable[[], Any]) -> Any:
    """What this gives in a new thread, whose context knows nothing of ours."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(WAIT)


def run_python(code: str, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, without a setting of ours unless one is given."""
    inherited = {k: v for k, v in os.environ.items() if k != "SYMATTN_SHAPECHECK"}
    return subprocess.run(
        [sys.executable, "-W", "error", *options, "-c", code],
        cwd=Path(symattn.__file__).parents[1],
        env=inherited | environ,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )


# The process and the block


def test_a_block_holds_until_its_end() -> None:
    assert config.shapecheck
    with config(shapecheck=False) as inside:
        assert inside is config
        assert not config.shapecheck
        with config(shapecheck=True):
            assert config.shapecheck
            with config(shapecheck=False):
                assert not config.shapecheck
            assert config.shapecheck
        assert not config.shapecheck


def test_an_exception_ends_a_block() -> None:
    with pytest.raises(ZeroDivisionError), config(shapecheck=False):
        _ = 1 / 0
    assert config.shapecheck


def test_the_process_is_switched_for_all_threads() -> None:
    config.shapecheck = False
    try:
        assert not config.shapecheck
        assert not in_thread(lambda: config.shapecheck)
        with config(shapecheck=True):
            assert config.shapecheck
            assert not in_thread(lambda: config.shapecheck)
        assert not config.shapecheck
    finally:
        config.shapecheck = True


def test_a_block_wins_over_the_process_until_it_ends() -> None:
    with config(shapecheck=True):
        config.shapecheck = False
        try:
            assert config.shapecheck
            assert not in_thread(lambda: config.shapecheck)
        finally:
            config.shapecheck = True


@pytest.mark.parametrize("on", [True, False])
def test_the_flag_is_up_exactly_while_somebody_has_to_ask(on: bool) -> None:
    flags = [STATE.unusual]
    with config(shapecheck=on):
        flags.append(STATE.unusual)
        with config(shapecheck=on):
            pass
        flags.append(STATE.unusual)
    flags.append(STATE.unusual)
    config.shapecheck = False
    flags.append(STATE.unusual)
    with config(shapecheck=on):
        config.shapecheck = True
        flags.append(STATE.unusual)
    flags.append(STATE.unusual)
    assert flags == [False, True, True, False, True, True, False]
    assert all(type(flag) is bool for flag in flags)  # compared in a nanosecond, and by guards


def test_one_block_is_entered_again_inside_itself() -> None:
    off = config(shapecheck=False)
    with off:
        with off, config(shapecheck=True), off:
            assert not config.shapecheck
        assert not config.shapecheck
    assert config.shapecheck
    with off:
        assert not config.shapecheck


def test_an_exit_stack_closes_blocks() -> None:
    off = config(shapecheck=False)
    with ExitStack() as stack:
        stack.enter_context(off)
        stack.enter_context(config(shapecheck=True))
        stack.enter_context(off)
        assert not config.shapecheck
    assert config.shapecheck


# Threads and tasks: each step of one waits for a step of the other


def test_overlapping_blocks_of_two_threads() -> None:
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    seen: dict[str, bool] = {}
    shared = config(shapecheck=False)

    def first() -> None:
        with shared:
            first_in.set()
            assert second_in.wait(WAIT)
            seen["first, inside"] = config.shapecheck
        seen["first, after"] = config.shapecheck
        seen["the flag is still up"] = STATE.unusual
        first_out.set()

    def second() -> None:
        assert first_in.wait(WAIT)
        seen["second, before"] = config.shapecheck
        with shared:
            second_in.set()
            assert first_out.wait(WAIT)
            seen["second, inside"] = config.shapecheck
        seen["second, after"] = config.shapecheck

    with ThreadPoolExecutor(2) as pool:
        for work in [pool.submit(first), pool.submit(second)]:
            work.result(WAIT)
    assert seen == {
        "second, before": True,
        "first, inside": False,
        "first, after": True,
        "the flag is still up": True,
        "second, inside": False,
        "second, after": True,
    }


def test_many_threads_leave_nothing_behind() -> None:
    start = threading.Barrier(4)
    off = config(shapecheck=False)

    def work() -> bool:
        start.wait(WAIT)
        right = True
        for _ in range(200):
            with off:
                right &= not config.shapecheck
                with config(shapecheck=True):
                    right &= config.shapecheck
            right &= config.shapecheck
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(each.result(WAIT) for each in [pool.submit(work) for _ in range(4)])


def test_overlapping_blocks_of_two_tasks() -> None:
    async def main() -> list[bool]:
        first_in, second_in, first_out = asyncio.Event(), asyncio.Event(), asyncio.Event()
        seen: list[bool] = []

        async def first() -> None:
            with config(shapecheck=False):
                first_in.set()
                await second_in.wait()
                seen.append(config.shapecheck)
            seen.append(config.shapecheck)
            first_out.set()

        async def second() -> None:
            await first_in.wait()
            seen.append(config.shapecheck)
            with config(shapecheck=False):
                second_in.set()
                await first_out.wait()
                seen.append(config.shapecheck)
            seen.append(config.shapecheck)

        await asyncio.wait_for(asyncio.gather(first(), second()), WAIT)
        return seen

    assert asyncio.run(main()) == [True, False, True, False, True]


def test_what_is_started_in_a_block_is_in_it_until_it_ends() -> None:
    async def main() -> list[bool]:
        closed = asyncio.Event()

        async def child() -> list[bool]:
            inside = config.shapecheck
            await closed.wait()
            return [inside, config.shapecheck]

        with config(shapecheck=False):
            task = asyncio.create_task(child())
            seen = [await asyncio.to_thread(lambda: config.shapecheck)]
            await asyncio.sleep(0)  # the child has looked
        closed.set()
        return seen + await asyncio.wait_for(task, WAIT)

    assert asyncio.run(main()) == [False, False, True]


def test_a_closed_block_uncovers_the_one_around_it() -> None:
    """Also in a context that was copied while both were open."""
    with config(shapecheck=False):
        with config(shapecheck=True):
            copied = copy_context()
            assert copied.run(lambda: config.shapecheck)
        assert not copied.run(lambda: config.shapecheck)
    assert copied.run(lambda: config.shapecheck)


def test_a_thread_that_dies_in_a_block_takes_it_along() -> None:
    def work() -> None:
        with config(shapecheck=False):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_thread(work)


# Generators, which are closed in other places than they were opened


def opened(on: bool = False) -> Iterator[bool]:
    with config(shapecheck=on):
        yield config.shapecheck


def test_a_generator_that_another_context_closes() -> None:
    generator = opened()
    home = copy_context()
    assert home.run(next, generator) is False
    assert home.run(lambda: config.shapecheck) is False
    assert config.shapecheck
    generator.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert home.run(lambda: config.shapecheck)


def test_a_generator_that_another_thread_closes() -> None:
    generator = opened()
    next(generator)
    assert not config.shapecheck
    with ThreadPoolExecutor(1) as pool:
        pool.submit(generator.close).result(WAIT)  # pyright: ignore[reportAttributeAccessIssue]
        assert pool.submit(lambda: config.shapecheck).result(WAIT)
    assert config.shapecheck


def test_a_generator_that_is_dropped() -> None:
    def drop() -> None:
        generator = opened()
        next(generator)
        assert not config.shapecheck

    drop()
    gc.collect()
    assert config.shapecheck


def test_generators_that_are_not_closed_in_order() -> None:
    first, second = opened(False), opened(True)
    seen = [next(first), next(second), config.shapecheck]
    first.close()  # pyright: ignore[reportAttributeAccessIssue]
    seen.append(config.shapecheck)
    second.close()  # pyright: ignore[reportAttributeAccessIssue]
    seen.append(config.shapecheck)
    assert seen == [False, True, True, True, True]


def test_an_outer_block_holds_after_an_inner_one_that_is_closed_late() -> None:
    late = opened(True)
    with config(shapecheck=False):
        next(late)
        assert config.shapecheck
    assert config.shapecheck  # `late` is still open
    config.shapecheck = False
    try:
        late.close()  # pyright: ignore[reportAttributeAccessIssue]
        assert not config.shapecheck
    finally:
        config.shapecheck = True


def test_an_entry_of_a_shared_block_is_closed_by_the_frame_that_made_it() -> None:
    """A generator and its caller use one manager, with another block between their entries."""
    off = config(shapecheck=False)

    def shared() -> Iterator[None]:
        with off:
            yield

    generator = shared()
    next(generator)
    with config(shapecheck=True), off:
        generator.close()  # pyright: ignore[reportAttributeAccessIssue]
        assert not config.shapecheck
    assert config.shapecheck


def test_an_async_generator_that_another_task_closes() -> None:
    async def opened_async() -> AsyncIterator[bool]:
        with config(shapecheck=False):
            yield config.shapecheck

    async def main() -> list[bool]:
        generator = opened_async()

        async def start() -> bool:
            return await anext(generator)

        seen = [await asyncio.create_task(start()), config.shapecheck]
        close: Any = generator
        await asyncio.create_task(close.aclose())
        return [*seen, config.shapecheck, STATE.unusual]

    assert asyncio.run(main()) == [False, True, True, False]


def test_the_collector_may_close_a_block_at_any_moment() -> None:
    """Also within the few lines that hold the lock."""
    generator = opened()

    def work() -> bool:
        next(generator)
        with STATE.lock:
            generator.close()  # pyright: ignore[reportAttributeAccessIssue]
        return config.shapecheck

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_does_not_inherit_a_lock_that_nobody_will_release() -> None:
    done = run_python(
        """
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: that is the point
from symattn.runtime.switch import STATE, config
held, release = threading.Event(), threading.Event()
def hold():
    with STATE.lock:
        held.set()
        release.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    threading.Timer(20, os._exit, [3]).start()
    with config(shapecheck=False):
        os._exit(0 if not config.shapecheck else 4)
status = os.waitpid(child, 0)[1]
release.set()
print(os.waitstatus_to_exitcode(status))
"""
    )
    assert done.stdout == "0\n", done.stderr


# Compilers


def test_pytorch_traces_the_switch_without_a_graph_break() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: python -m pip install torch")
    done = run_python(
        """
import warnings
warnings.simplefilter("ignore")  # those of PyTorch
import torch
from symattn.runtime.switch import STATE, config

@torch.compile(backend="eager", fullgraph=True)
def checks(x):
    return x + (not STATE.unusual or STATE.is_on())

zero = torch.zeros(())
print(checks(zero).item())
with config(shapecheck=False):
    print(checks(zero).item())
print(checks(zero).item())
config.shapecheck = False
print(checks(zero).item())
"""
    )
    assert done.stdout.split() == ["1.0", "0.0", "1.0", "0.0"], done.stderr


# What is refused


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1, "1"),
        ("off", "'off'"),
        (None, "None"),
        (10**5000, "a value of type int"),
        (np.True_, "a value of type numpy.bool"),
        (np.zeros(3), "a value of type numpy.ndarray"),
    ],
    ids=["0", "1", "text", "None", "huge", "bool_", "array"],
)
def test_anything_but_a_bool_is_refused(value: object, shown: str) -> None:
    with pytest.raises(SettingError) as caught:
        ANY.shapecheck = value
    assert str(caught.value) == f"config.shapecheck takes True or False, not {shown}"
    with pytest.raises(SettingError) as caught:
        ANY(shapecheck=value)
    assert str(caught.value) == f"shapecheck in config() takes True or False, not {shown}"


def set_misspelt() -> None:
    ANY.shapechek = False


@pytest.mark.parametrize(
    "use", [lambda: ANY.shapechek, set_misspelt, lambda: ANY(shapechek=False)], ids=range(3)
)
def test_a_misspelt_setting_is_answered_with_the_nearest(use: Callable[[], object]) -> None:
    with pytest.raises(UnknownSettingError) as caught:
        use()
    assert str(caught.value) == "config has no setting 'shapechek'; did you mean 'shapecheck'?"
    assert isinstance(caught.value, SymattnError)
    assert isinstance(caught.value, AttributeError)


def test_a_setting_like_no_other() -> None:
    assert not hasattr(config, "zzz")
    with pytest.raises(UnknownSettingError, match=r"^config has no setting 'zzz'; it has shape"):
        ANY.zzz = 1


def test_a_call_without_a_setting() -> None:
    with pytest.raises(SettingError, match=r"^config\(\) takes shapecheck=True or shapecheck=Fal"):
        config()


def test_errors_survive_pickling() -> None:
    for error in [SettingError("a", "b", ["c"]), UnknownSettingError("a", ["b"], ["b", "c"])]:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
        assert vars(again) == vars(error)


def test_the_representation_says_what_holds() -> None:
    assert repr(config) == "<config: shapecheck = True (everywhere)>"
    with config(shapecheck=False):
        assert repr(config) == "<config: shapecheck = False (in this block; True elsewhere)>"
    assert repr(config(shapecheck=False)) == "config(shapecheck=False)"


@pytest.mark.parametrize("each", [config, STATE], ids=["config", "STATE"])
def test_there_is_one_of_each(each: object) -> None:
    assert copy.copy(each) is copy.deepcopy(each) is pickle.loads(pickle.dumps(each)) is each


# The environment


@pytest.mark.parametrize(
    ("text", "on"),
    [
        *[(text, True) for text in ("", "  ", "1", "true", "TRUE", "on", "On", "yes", " yes ")],
        *[(text, False) for text in ("0", "false", "False", "off", "OFF", "no", " no\n")],
    ],
)
def test_the_variable_sets_the_process(text: str, on: bool) -> None:
    assert from_environment({"SYMATTN_SHAPECHECK": text}) is on


def test_checks_are_on_without_the_variable() -> None:
    assert from_environment({"SHAPECHECK": "0"}) is True


@pytest.mark.parametrize("text", ["maybe", "2", "of", "t", "00"])
def test_another_text_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(SettingError) as caught:
        from_environment({"SYMATTN_SHAPECHECK": text})
    assert str(caught.value) == (
        "the environment variable SYMATTN_SHAPECHECK takes "
        f"1, true, on, yes, 0, false, off or no, not {text!r}"
    )


SHOW = "from symattn.runtime.switch import STATE, config; print(config.shapecheck, STATE.unusual)"


@pytest.mark.parametrize("options", [(), ("-O",), ("-OO",)], ids=["", "-O", "-OO"])
@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        ({}, "True False"),
        ({"SYMATTN_SHAPECHECK": "yes"}, "True False"),
        ({"SYMATTN_SHAPECHECK": "off"}, "False True"),
    ],
    ids=["unset", "yes", "off"],
)
def test_a_process_starts_as_the_variable_says(
    options: tuple[str, ...], environ: dict[str, str], shown: str
) -> None:
    done = run_python(SHOW, *options, **environ)
    assert done.stdout == f"{shown}\n", done.stderr


def test_a_wrong_variable_is_one_error_at_the_import() -> None:
    done = run_python(SHOW, SYMATTN_SHAPECHECK="maybe")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("symattn.errors.SettingError: the environment variable SYM")
    assert "During handling" not in done.stderr


def test_a_wrong_variable_harms_nobody_who_needs_no_switch() -> None:
    done = run_python("import symattn; print(symattn.SymattnError)", SYMATTN_SHAPECHECK="maybe")
    assert done.returncode == 0, done.stderr


def test_the_switch_is_light() -> None:
    done = run_python(f"{SHOW}; import sys; print(*sys.modules)")
    loaded = set(done.stdout.split())
    assert "symattn.runtime.switch" in loaded
    assert not {"sympy", "numpy", "beartype", "jaxtyping", "torch"} & loaded
