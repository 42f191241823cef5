"""The looks: quiet frames, one accent, one colour for trouble; and one without any colour."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme


@dataclass(frozen=True)
class Look:
    """The inks of a theme. Every meaning an ink carries is also said in a word or a sign."""

    text: Style
    bright: Style
    muted: Style
    frame: Style
    focus: Style
    accent: Style
    trouble: Style
    base: Style
    cursor: Style
    chip: Style


@dataclass(frozen=True)
class _Colours:
    background: str
    surface: str
    text: str
    bright: str
    muted: str
    frame: str
    focus: str
    accent: str
    trouble: str
    base: str
    cursor: str
    dark: bool = True


_COLOURS = {
    "workbench-dark": _Colours(
        background="#0e1216",
        surface="#171d23",
        text="#c9d1d9",
        bright="#ffffff",
        muted="#83909d",
        frame="#2f3a45",
        focus="#8fb3cc",
        accent="#5fd7c4",
        trouble="#ff8370",
        base="#a08f6c",
        cursor="#23303b",
    ),
    "workbench-light": _Colours(
        background="#fcfcfa",
        surface="#f1f1ed",
        text="#2a3037",
        bright="#000000",
        muted="#626d78",
        frame="#c3c9cf",
        focus="#30506a",
        accent="#00716a",
        trouble="#b3261e",
        base="#86703c",
        cursor="#dfe8ee",
        dark=False,
    ),
    "high-contrast": _Colours(
        background="#000000",
        surface="#000000",
        text="#ffffff",
        bright="#ffffff",
        muted="#d8d8d8",
        frame="#8c8c8c",
        focus="#ffff00",
        accent="#00ffff",
        trouble="#ff9d5c",
        base="#ffe680",
        cursor="#1f3fbf",
    ),
    # Okabe and Ito's palette: told apart with every common kind of colour blindness.
    "colour-blind": _Colours(
        background="#10141a",
        surface="#181e26",
        text="#d3d8de",
        bright="#ffffff",
        muted="#8d98a4",
        frame="#333d48",
        focus="#f0e442",
        accent="#56b4e9",
        trouble="#e69f00",
        base="#b08cab",
        cursor="#22313f",
    ),
}
TERMINAL = "terminal"
"""The terminal's own 16 colours; without NO_COLOR's leave none of them."""

NAMES: tuple[str, ...] = (*_COLOURS, TERMINAL)
DEFAULT = "workbench-dark"


def textual_themes() -> list[Theme]:
    """The themes in the form the framework's own widgets (input line, palette) use."""
    themes = [
        Theme(
            name=name,
            primary=c.accent,
            secondary=c.focus,
            accent=c.accent,
            warning=c.trouble,
            error=c.trouble,
            success=c.accent,
            foreground=c.text,
            background=c.background,
            surface=c.surface,
            panel=c.surface,
            dark=c.dark,
            variables={"border": c.frame, "border-blurred": c.frame, "footer-key-foreground": c.accent},
        )
        for name, c in _COLOURS.items()
    ]
    themes.append(
        Theme(
            name=TERMINAL,
            ansi=True,
            primary="ansi_cyan",
            secondary="ansi_default",
            accent="ansi_cyan",
            warning="ansi_red",
            error="ansi_red",
            success="ansi_cyan",
            foreground="ansi_default",
            background="ansi_default",
            surface="ansi_default",
            panel="ansi_default",
            boost="ansi_default",
            variables={
                **BUILTIN_THEMES["ansi-dark"].variables,
                "border": "ansi_default",
                "border-blurred": "ansi_default",
                "input-cursor-background": "ansi_default",
                "input-cursor-foreground": "ansi_black",
            },
        )
    )
    return themes


def _ansi_look(colour: bool) -> Look:
    accent, trouble = ("cyan", "red") if colour else ("default", "default")
    back = "default"
    return Look(
        text=Style(color="default", bgcolor=back),
        bright=Style(color="default", bgcolor=back, bold=True),
        muted=Style(color="default", bgcolor=back, dim=True),
        frame=Style(color="default", bgcolor=back, dim=True),
        focus=Style(color="default", bgcolor=back, bold=True),
        accent=Style(color=accent, bgcolor=back, bold=True),
        trouble=Style(color=trouble, bgcolor=back, bold=True),
        base=Style(color="default", bgcolor=back, dim=True),
        cursor=Style(color="default", bgcolor=back, reverse=True),
        chip=Style(color="default", bgcolor=back, reverse=True),
    )


def look_of(theme: str, no_color: bool = False) -> Look:
    """The inks of a theme; an unknown theme's are those of the terminal's own colours."""
    colours = _COLOURS.get(theme)
    if colours is None or no_color:
        return _ansi_look(not no_color)
    c = colours

    def ink(colour: str, back: str = c.background, bold: bool | None = None) -> Style:
        return Style(color=colour, bgcolor=back, bold=bold)

    return Look(
        text=ink(c.text),
        bright=ink(c.bright, bold=True),
        muted=ink(c.muted),
        frame=ink(c.frame),
        focus=ink(c.focus),
        accent=ink(c.accent),
        trouble=ink(c.trouble, bold=True),
        base=ink(c.base),
        cursor=ink(c.bright, c.cursor),
        chip=ink(c.accent, c.surface, bold=True),
    )
