"""The built-in engine, seen by whoever starts it: a server process of our own that ends with us.

`start_builtin` makes the weights if need be, starts `serve_builtin`, and gives its address and facts. `run_foreground` is
the verb `workbench engine`. Neither the engine's package nor gguf is imported in this process, but by the latter.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import platform
import sys
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Self

from workbench.domain.facts import Facts
from workbench.domain.text import one_line
from workbench.engines.carrier import Cancelled, EngineUnavailable
from workbench.engines.serve_builtin import (
    CONTEXT,
    SLOTS,
    add_arguments,
    default_threads,
    log_reason,
    new_log,
    serve,
)
from workbench.engines.weights import (
    CARRIER,
    MODEL_ALIAS,
    Progress,
    cache_dir,
    ensure_weights,
    progress_on_stderr,
    read_note,
    weights_path,
)

__all__ = [
    "MODEL_ALIAS",
    "BuiltinEngine",
    "EngineUnavailable",
    "add_arguments",
    "available",
    "prepare",
    "run_foreground",
    "start_builtin",
]

START_LIMIT_S = 90.0
STOP_LIMIT_S = 5.0
_PACKAGES = ("xllamacpp", "gguf")
_BUILT_FOR = {("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64")}
_COMMAND_LINE = "the command line it was started with"


def available() -> str | None:
    """None when the engine is installed here, else one line that says why not and how to mend it. Imports nothing heavy."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    if (platform.system(), platform.machine()) not in _BUILT_FOR:
        return (
            f"the built-in engine has no ready build for {platform.system()} {platform.machine()} (there is one for Linux "
            "x86_64 and aarch64 and macOS arm64): use a server of your own with --base-url"
        )
    return (
        f"the built-in engine is not installed ({' and '.join(missing)} missing): "
        "pip install 'inference-workbench[local]'"
    )


class BuiltinEngine:
    """A running built-in engine, for `async with`; what it serves doesn't change while it runs."""

    def __init__(
        self, process: asyncio.subprocess.Process, *, quant: str, slots: int, context: int, threads: int, log: Path
    ) -> None:
        self._process = process
        self.base_url = ""
        self.model = MODEL_ALIAS
        self.quant = quant
        self.slots = slots
        self.context = context
        self.threads = threads
        self.model_path = weights_path(quant)
        self.log_path = log

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; its exit status (negative: the signal) once it has ended by itself or was stopped."""
        return self._process.returncode

    def facts(self) -> Facts:
        """What is known of it because we started it; the rest (parameters, size, ...) is asked of the server as of any."""
        facts = Facts()
        facts.set("engine", "llama.cpp", "started by Workbench")
        facts.set("version", f"xllamacpp {_version('xllamacpp')}", "the installed package")
        facts.set("model", self.model, _COMMAND_LINE)
        facts.set("path", str(self.model_path.relative_to(cache_dir())), "below the cache folder")
        note = read_note(self.model_path)
        facts.set(
            "digest",
            None if note is None else f"sha256:{note.sha256}",
            "the file, hashed when it was made",
            "the file has changed since it was made: start the engine anew",
        )
        facts.set("format", "GGUF", "the file's name and the engine that loaded it")
        if self.quant == "Q4_1":
            facts.set("quant", self.quant, "the file, known by its sha256")
            facts.set("origin", f"{CARRIER.requirement} of the package index", "the file, known by its sha256")
        else:
            made_with = note.made_with if note is not None else "gguf"
            facts.set("quant", self.quant, f"re-encoded from Q4_1 by Workbench with {made_with}")
            facts.set("origin", f"re-encoded from Q4_1 of {CARRIER.requirement}", "the note kept beside the file")
        facts.set("context", self.context, _COMMAND_LINE)
        facts.set("slots", self.slots, _COMMAND_LINE)
        facts.set("threads", self.threads, _COMMAND_LINE)
        facts.set("kv_cache_type", "f16", "llama.cpp's default, which Workbench leaves as it is")
        facts.set("flags", _flags(self.quant, self.slots, self.context, self.threads), _COMMAND_LINE)
        return facts

    async def stop(self) -> None:
        """End the server and wait until it has ended; nothing when it already has."""
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(STOP_LIMIT_S):
                    await process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        await process.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


async def prepare(quant: str, progress: Progress | None = None) -> Path:
    """`ensure_weights` beside a running event loop: `progress` is called on the loop, cancelling ends the work at once."""
    loop = asyncio.get_running_loop()
    cancel = threading.Event()

    def tell(text: str) -> None:
        if progress is not None and not cancel.is_set():
            loop.call_soon_threadsafe(progress, text)

    work = asyncio.ensure_future(asyncio.to_thread(ensure_weights, quant, tell, cancel))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        cancel.set()
        with contextlib.suppress(Cancelled, EngineUnavailable):
            await work
        raise


async def start_builtin(
    quant: str = "Q4_1",
    slots: int = SLOTS,
    context: int = CONTEXT,
    progress: Progress | None = None,
    log: Path | None = None,
) -> BuiltinEngine:
    """Start the engine and wait until it answers. `context` is in tokens a slot. 1-2 s once the weights are there.

    It runs in a session of its own, so that Ctrl-C at the terminal doesn't reach it, and ends with this process however that
    ends. Raises EngineUnavailable, one line.
    """
    reason = available()
    if reason is not None:
        raise EngineUnavailable(reason)
    await prepare(quant, progress)
    if progress is not None:
        progress(f"Starting the built-in engine ({quant})")
    threads = default_threads()
    log = log or new_log(quant)
    command = [sys.executable, "-P", "-m", "workbench.engines.serve_builtin", "--until-stdin-closes", "--log", str(log)]
    process = await asyncio.create_subprocess_exec(
        *command,
        *_flags(quant, slots, context, threads),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    engine = BuiltinEngine(process, quant=quant, slots=slots, context=context, threads=threads, log=log)
    try:
        engine.base_url = await _first_line(process, log)
    except BaseException:
        await engine.stop()
        raise
    return engine


def run_foreground(options: argparse.Namespace) -> int:
    """The verb `workbench engine`: the base URL on stdout, then serve until Ctrl-C (exit 130) or SIGTERM (exit 0).

    Exit status 3, after one line on stderr, when it can't. Takes this process over: it does not come back once it serves.
    """
    reason = available()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 3
    options.model = None
    try:
        options.log = options.log or new_log(options.quant)
        model = ensure_weights(options.quant, progress_on_stderr())
    except EngineUnavailable as error:
        print(error, file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    print(f"Serving {MODEL_ALIAS} {options.quant} until Ctrl-C; log: {options.log}", file=sys.stderr)
    return serve(options, model)


async def _first_line(process: asyncio.subprocess.Process, log: Path) -> str:
    """The base URL it prints once it answers."""
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(START_LIMIT_S):
            line = await process.stdout.readline()
    except TimeoutError:
        raise EngineUnavailable(
            f"the built-in engine did not start in {START_LIMIT_S:.0f} s; the end of its log {log}: {log_reason(log)}"
        ) from None
    if line.endswith(b"\n"):
        return line.decode("ascii").strip()
    status = await process.wait()
    said = one_line((await process.stderr.read()).decode(errors="replace"), 400)
    raise EngineUnavailable(
        said
        if status == 3 and said
        else f"the built-in engine ended at once ({status}); its log {log}: {log_reason(log)}"
    )


def _flags(quant: str, slots: int, context: int, threads: int) -> list[str]:
    return [f"--quant={quant}", f"--slots={slots}", f"--context={context}", f"--threads={threads}"]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"
