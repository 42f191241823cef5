"""Picks the verb. Only the verb that was named is imported: `workbench --version` must cost next to nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from workbench.cli.status import BAD_INPUT, DONE, INTERRUPTED

VERBS = {
    "tui": "the screen: flip one variable, watch it, know what changed (also `workbench` alone)",
    "demo": "the screen on the built-in engine, measuring at once (--simulated: on the simulator)",
    "run": "measure one setting, a ladder or a sweep; print a table, save a session",
    "ab": "interleaved A/B of one variable, with a verdict",
    "compare": "two sessions: checks, figures, verdict",
    "claim": "a claimed speed-up: what it leaves out, what it could be, what to ask",
    "baseline": "name a session, and check it again later: save, list, check",
    "show": "one session as a table and plots; without a name, the list of sessions",
    "replay": "a recorded session played again on the screen",
    "import": "another tool's result file as a session",
    "rerun": "a session's plan again, from its record alone",
    "discover": "the servers and models that can be found",
    "doctor": "what is known of this machine, and what is missing",
    "calibrate": "check the instrument against a server of known timing",
    "sim": "a simulated server of known timing",
    "engine": "the built-in engine as a server",
}
"""Every verb with what it does. Each is one module, `workbench.cli.VERB`, with `add_arguments` and `execute`."""

MODULES = {"import": "importing"}
"""The verbs whose module has another name, as theirs is a word of Python's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status: 0 done, 1 failures or a missed limit, 2 bad input, 3 could not measure, 130
    interrupted."""
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        # While the first modules were still being read.
        print("workbench: interrupted", file=sys.stderr)
        return INTERRUPTED


def _main(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["--version"], ["-V"]):
        from workbench import __version__

        print(f"workbench {__version__}")
        return DONE
    if words[:1] == ["help"] and words[1:]:
        words = [words[1], "--help"]
    if not words:
        words = ["tui"]
    if words[0] in ("--help", "-h", "help"):
        print(usage(), end="")
        return DONE
    if words[0].startswith("-"):
        # Options alone are the screen's: `workbench --base-url URL` opens it on that server.
        words.insert(0, "tui")
    verb = words.pop(0)
    if verb not in VERBS:
        return _unknown(verb)
    from workbench.cli.safely import safely

    return safely(lambda: _execute(verb, words))


def _execute(verb: str, words: list[str]) -> int:
    module = import_module(f"workbench.cli.{MODULES.get(verb, verb)}")
    parser = Parser(prog=f"workbench {verb}", description=module.__doc__, allow_abbrev=False)
    module.add_arguments(parser)
    try:
        namespace = parser.parse_args(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else BAD_INPUT
    status: int = module.execute(namespace)
    return status


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, without the whole usage before it."""

    def error(self, message: str) -> NoReturn:
        from workbench.domain.text import one_line

        self.exit(BAD_INPUT, f"{self.prog}: {one_line(message)}; `{self.prog} --help` lists the options\n")


def usage() -> str:
    """The overview that `workbench --help` prints."""
    lines = [
        "usage: workbench COMMAND [OPTIONS]",
        "",
        "How fast is a local LLM server, and what did a change really buy?",
        "",
        *(f"  {verb:<10} {meaning}" for verb, meaning in VERBS.items()),
        "",
        "`workbench COMMAND --help` tells a command's options.",
        "Exit status: 0 done, 1 requests failed or a limit was missed, 2 bad input, 3 could not measure, 130 interrupted.",
        "",
    ]
    return "\n".join(lines)


def _unknown(verb: str) -> int:
    from difflib import get_close_matches

    from workbench.domain.text import one_line

    near = get_close_matches(verb, VERBS, n=1)
    hint = f"did you mean `workbench {near[0]}`?" if near else "`workbench --help` lists them"
    print(f"workbench: no such command: {one_line(verb, 60)}; {hint}", file=sys.stderr)
    return BAD_INPUT
