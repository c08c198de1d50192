"""The two ways in which a command ends without an answer."""

from __future__ import annotations

import click


class Refused(click.ClickException):
    """A call that cannot be followed; the message says why, in a line or a few."""

    exit_code = 2


class AtFault(click.ClickException):
    """A fault of symattn itself, which must not look like an answer."""

    exit_code = 3
