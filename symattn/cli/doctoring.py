"""`symattn doctor`: what is there to run formulas with, and what to install or do for the rest."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict

import click

from symattn import __version__
from symattn.cli.printing import WIDTH, print_json, printable
from symattn.codegen.gpu.devices import Finding
from symattn.codegen.gpu.environment import examined

_NARROWEST = 30

_WAYS = {
    "numpy": ('backend="numpy"', ("NumPy",)),
    "cupy": ('backend="cupy"', ("CuPy", "NVRTC", "a computation")),
    "fused": ('plan="fused"', ("CuPy", "NVRTC", "a computation", "Triton", "cache of kernels")),
}
"""The ways to run a formula, and what has to be fine for each."""


def examine(*, as_json: bool) -> bool:
    """Print what was found on this machine; return whether nothing that is there is broken."""
    findings = examined()
    fine = {finding.subject for finding in findings if finding.state == "fine"}
    ready = {way: fine.issuperset(needed) for way, (_, needed) in _WAYS.items()}
    if as_json:
        data = [asdict(finding) for finding in findings]
        print_json({"version": __version__, "findings": data, "ready": ready})
    else:
        click.echo(_as_text(findings))
        ways = [
            f"{_WAYS[way][0]}: {'ready' if is_ready else 'not here'}"
            for way, is_ready in ready.items()
        ]
        click.echo("\n" + "; ".join(ways))
    return all(finding.state != "broken" for finding in findings)


def _as_text(findings: Sequence[Finding]) -> str:
    names = max(len(finding.subject) for finding in findings) + 2
    start = names + len("broken") + 2
    lines = [f"symattn {__version__}", ""]
    for finding in findings:
        first = f"{finding.subject:<{names}}{finding.state:<{start - names}}"
        wrapped = textwrap.TextWrapper(
            max(WIDTH, start + _NARROWEST),
            initial_indent=first,
            subsequent_indent=" " * start,
            break_on_hyphens=False,
            break_long_words=False,
        )
        lines += wrapped.wrap(printable(finding.found))
        if finding.fix and finding.state != "fine":
            wrapped.initial_indent = f"{'':<{start}}→ "
            wrapped.subsequent_indent += "  "
            lines += wrapped.wrap(printable(finding.fix))
    return "\n".join(lines)
