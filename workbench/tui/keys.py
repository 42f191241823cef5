"""Every key of the live screen with its id, so that the footer, the help, the palette and a remapping say the same."""

from __future__ import annotations

from textual.binding import Binding

LIVE: list[Binding] = [
    Binding("x", "stop", "Stop", id="stop", tooltip="Stop the run; what is finished is kept and saved"),
    Binding("escape", "end_replay", "End replay", id="replay.end", key_display="Esc", tooltip="Back to measuring"),
    Binding("r", "measure('run')", "Run", id="run", tooltip="Measure the setting shown; the first run is the baseline"),
    Binding("u", "undo", "Undo", id="undo", tooltip="Put back the variable flipped last"),
    Binding("b", "base", "Base", id="base", tooltip="Make the setting shown the new baseline"),
    Binding(
        "l", "measure('ladder')", "Ladder", id="ladder", tooltip="Concurrency 1, 4, 8, 16, 32, one after the other"
    ),
    Binding("a", "measure('ab')", "A/B", id="ab", tooltip="Baseline and flipped variable in turns, 6 rounds each"),
    Binding("left", "flip(-1)", "Flip", id="flip.back", key_display="←→", tooltip="Flip the selected variable back"),
    Binding("right", "flip(1)", "Flip", id="flip.on", show=False, tooltip="Flip the selected variable on"),
    Binding("space", "pause", "Pause", id="pause", tooltip="Hold the screen still; measuring goes on"),
    Binding("s", "sessions", "Sessions", id="sessions", tooltip="Saved sessions: open, compare, rename, run again"),
    Binding(
        "question_mark", "help", "Help", id="help", key_display="?", tooltip="Keys, and what the figures in focus mean"
    ),
    Binding("q", "leave", "Quit", id="quit", tooltip="Quit; a run under way is stopped and saved first"),
    Binding("y", "copy", "Copy", id="copy", tooltip="Copy the verdict to the clipboard of your terminal (OSC 52)"),
    Binding("p", "present", "Present", id="present", tooltip="Big figures for a projector; hosts and paths hidden"),
    Binding("o", "measure('soak')", "Soak", id="soak", tooltip="Keep measuring until stopped, a minute a cell"),
    Binding("e", "environment", "Environment", id="environment", tooltip="Every fact and how it is known"),
    Binding("t", "targets", "Servers", id="targets", tooltip="Choose another server"),
    Binding("d", "verdict", "Verdict", id="verdict", tooltip="The whole verdict with its checks"),
    Binding("n", "note", "Note", id="note", tooltip="Name the saved session and write notes into it"),
    Binding(
        "v", "charts", "Charts", id="charts", show=False, tooltip="Charts of a ladder over time or over its values"
    ),
    Binding("j", "jump", "Jump", id="jump", show=False, tooltip="Show a letter on every pane; press it to go there"),
    Binding("comma", "settings", "Settings", id="settings", show=False, key_display=",", tooltip="Theme, limits, keys"),
    Binding("up", "select(-1)", "Up", id="up", show=False, tooltip="The variable, or the request, above"),
    Binding("down", "select(1)", "Down", id="down", show=False, tooltip="The variable, or the request, below"),
    Binding("enter", "open", "Open", id="open", show=False, tooltip="Type a value, or open the request in focus"),
]
