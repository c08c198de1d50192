"""Measuring on a machine that may be busy: interleaved rounds, and how much of it others used.

Speeds of a machine drift, so times of different minutes do not compare.  In a round every candidate
runs once; a ratio is taken within each round, and the median of those is reported.  Where one
thread works, its time is the process's processor time, which the turns of other processes do not
lengthen; on an idle machine the clock shows the same.  What others used is read off `/proc/stat`.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import cycle, permutations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

STATISTICS = Path("/proc/stat")
TICKS = 100  # a second, in /proc/stat
BUSY = 0.15  # cores that others use, from which on a measurement is called busy


@dataclass(frozen=True)
class Rounds:
    """The seconds of each candidate in each round, and the cores that others used in it."""

    seconds: Mapping[str, Any]
    others: Any

    def ratio(self, ours: str, over: str) -> float:
        """The median over the rounds of one candidate's time over another's."""
        return float(np.median(self.seconds[ours] / self.seconds[over]))

    def milliseconds(self, candidate: str) -> float:
        """The median time of a candidate."""
        return 1000 * float(np.median(self.seconds[candidate]))

    @property
    def others_used(self) -> float | None:
        """The median number of cores that other processes used; None where nothing tells."""
        return None if self.others is None else float(np.median(self.others))

    @property
    def count(self) -> int:
        """The number of rounds."""
        return len(next(iter(self.seconds.values())))

    def quietest(self) -> Rounds:
        """The third of the rounds in which others used least."""
        if self.others is None:
            return self
        kept = np.argsort(self.others, kind="stable")[: -(-self.count // 3)]
        return Rounds(
            {name: times[kept] for name, times in self.seconds.items()}, self.others[kept]
        )


def used_by_all() -> float | None:
    """The seconds of all cores that any process has used since the machine's start."""
    if not STATISTICS.exists():
        return None
    user, nice, system = map(int, STATISTICS.read_text("ascii").split(maxsplit=4)[1:4])
    return (user + nice + system) / TICKS


def interleaved(
    candidates: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> Rounds:
    """Run every candidate once a round, in changing order, after one run that is not measured."""
    for run in candidates.values():
        run()
    orders = list(permutations(candidates))  # who runs before whom decides what a cache holds
    np.random.default_rng(0).shuffle(orders)
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    others: list[float] = []
    for _, order in zip(range(rounds), cycle(orders), strict=False):
        all_before, own_before, start = used_by_all(), time.process_time(), time.perf_counter()
        for name in order:
            run = candidates[name]
            began = clock()
            run()
            seconds[name].append(clock() - began)
        all_after = used_by_all()
        if all_before is not None and all_after is not None:
            own = time.process_time() - own_before
            used = all_after - all_before - own
            others.append(max(0.0, used / (time.perf_counter() - start)))
    return Rounds(
        {name: np.array(times) for name, times in seconds.items()},
        np.array(others) if others else None,
    )


def peak_bytes(run: Callable[[], Any]) -> int:
    """The most memory that NumPy held during a call beyond what it held before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        run()
        _, peak = tracemalloc.get_traced_memory()
        return peak - before
    finally:
        tracemalloc.stop()


def in_a_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process of its own, where no earlier call has left memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()
