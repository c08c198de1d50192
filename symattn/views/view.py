"""What every view can do: print itself as text, as LaTeX for a renderer, and in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod

from symattn.notation.presets import Preset


class View(ABC):
    """A formula in another way of writing."""

    @abstractmethod
    def text(self, preset: Preset | str | None = None) -> str:
        """Return the view as text, with the glyphs of a preset."""

    @abstractmethod
    def latex(self, preset: Preset | str | None = None, *, dialect: str = "latex") -> str:
        """Return the view as LaTeX, with the glyphs of a preset, for a renderer."""

    def __repr__(self) -> str:
        return self.text()

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex(dialect='jupyter')}$"
