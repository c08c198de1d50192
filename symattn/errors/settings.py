"""What is wrong with a setting, or with a package whose functions are to be checked."""

from __future__ import annotations

from collections.abc import Sequence

from symattn.errors.root import SymattnError

_LONGEST = 80
"""Of what was given, as far as a message repeats it."""


class SettingError(SymattnError, ValueError):
    """A setting that was given something else than one of its choices.

    ``setting`` is its name, ``given`` what it was given, as text, ``choices`` what it takes.

    >>> print(SettingError("config.shapecheck", "'off'", ["True", "False"]))
    config.shapecheck takes True or False, not 'off'
    """

    def __init__(self, setting: str, given: str, choices: Sequence[str]) -> None:
        self.setting = setting
        self.given = given if len(given) <= _LONGEST else given[:_LONGEST] + "…"
        self.choices = tuple(choices)
        *most, last = self.choices
        taken = f"{', '.join(most)} or {last}" if most else last
        super().__init__(f"{setting} takes {taken}, not {self.given}")


class UnknownSettingError(SymattnError, AttributeError):
    """A setting that there is none of; `hasattr` answers no.

    ``setting`` is the name that was used, ``nearest`` are those that are spelt most like it, and
    ``choices`` are all there are.

    >>> print(UnknownSettingError("shapechek", ["shapecheck"], ["shapecheck"]))
    config has no setting 'shapechek'; did you mean 'shapecheck'?
    >>> print(UnknownSettingError("x", [], ["shapecheck"]))
    config has no setting 'x'; it has shapecheck
    """

    def __init__(self, setting: str, nearest: Sequence[str], choices: Sequence[str]) -> None:
        self.setting = setting
        self.nearest = tuple(nearest)
        self.choices = tuple(choices)
        meant = " or ".join(repr(near) for near in self.nearest)
        hint = f"did you mean {meant}?" if meant else f"it has {', '.join(self.choices)}"
        super().__init__(f"config has no setting {setting[:_LONGEST]!r}; {hint}")


class PackageError(SymattnError, ValueError):
    """A package whose imports cannot be checked, with what to do about it.

    >>> print(PackageError("mylib", "it is imported already", "ask before its first import"))
    'mylib' cannot be checked: it is imported already
      ask before its first import
    """

    def __init__(self, package: str, problem: str, fix: str) -> None:
        self.package = package if len(package) <= _LONGEST else package[:_LONGEST] + "…"
        self.problem = problem
        self.fix = fix
        super().__init__(f"{self.package!r} cannot be checked: {problem}\n  {fix}")
