"""Times on a device, between events of its stream; candidates take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle, islice, permutations
from typing import Any

import numpy as np

from tests.benchmarks.on_the_cpu.attentions import torch

LEAST_SECONDS = 0.02  # that one measurement takes: shorter ones are repeated


def interleaved(candidates: Mapping[str, Callable[[], Any]], rounds: int) -> Mapping[str, Any]:
    """Return the seconds of a call of each candidate in each round, each in turn."""
    repeats = {name: _repeats(run) for name, run in candidates.items()}
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    orders = list(islice(permutations(candidates), 24))
    np.random.default_rng(0).shuffle(orders)
    for _, order in zip(range(rounds), cycle(orders), strict=False):
        for name in order:
            seconds[name].append(_seconds(candidates[name], repeats[name]))
    return {name: np.array(times) for name, times in seconds.items()}


def _repeats(run: Callable[[], Any]) -> int:
    """Return how often to call what takes little time; it is warm afterwards."""
    for _ in range(3):
        run()
    return max(1, round(LEAST_SECONDS / max(_seconds(run, 2), 1e-6)))


def _seconds(run: Callable[[], Any], repeats: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000 / repeats
