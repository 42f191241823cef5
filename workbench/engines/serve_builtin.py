"""The built-in engine's server process: `python -m workbench.engines.serve_builtin --quant Q4_1 --port 0`.

llama.cpp's own HTTP server (package xllamacpp) on the loopback address. stdout carries one line, the base URL, once it
answers; everything that llama.cpp writes goes to the log. Exit status: 0 ended by SIGTERM, SIGHUP or the end of stdin,
130 by SIGINT, 3 when it can't serve (then one line on stderr says why).
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import select
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from workbench.domain.text import one_line
from workbench.engines.carrier import EngineUnavailable
from workbench.engines.weights import MODEL_ALIAS, cache_dir, ensure_weights, quants

LOOPBACK = "127.0.0.1"
SLOTS = 4
CONTEXT = 4608
MAX_THREADS = 8
# A streaming request or an idle kept-alive connection holds one of llama.cpp's HTTP threads. With its own default (8 here),
# 32 requests at once made GET /metrics wait 7 s; with a thread for each, 10 ms. An idle thread costs about 20 kB.
HTTP_THREADS = 288
_KEPT_LOGS = 10
_PR_SET_PDEATHSIG = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the built-in engine, for this process and for `workbench engine`."""
    parser.add_argument("--quant", default="Q4_1", choices=quants(), help="weights to serve (default %(default)s)")
    parser.add_argument("--port", type=_port, default=0, help=f"port on {LOOPBACK}; 0 (the default) takes a free one")
    parser.add_argument("--slots", type=_positive, default=SLOTS, help="requests served at once (default %(default)s)")
    parser.add_argument("--context", type=_positive, default=CONTEXT, help="tokens a slot holds (default %(default)s)")
    parser.add_argument("--threads", type=_positive, default=0, help=f"default: CPUs - 1, at most {MAX_THREADS}")
    parser.add_argument("--log", type=Path, help="llama.cpp's log (default: a file in the cache folder)")


def default_threads() -> int:
    """One thread fewer than the CPUs this process may use, from 1 to 8.

    llama.cpp's threads spin at barriers: as many as CPUs, beside any other busy process, made it fall to 1 token/s. The load
    generator needs a CPU as well, and a model as small as this has no work for more than 8.
    """
    from workbench.environment.container import cgroup_limits
    from workbench.environment.cpu import usable_cpus
    from workbench.environment.files import Files

    cpus = usable_cpus() or os.cpu_count() or 1
    quota = cgroup_limits(Files()).cpus
    if quota is not None:
        cpus = min(cpus, math.ceil(quota))
    return min(max(cpus - 1, 1), MAX_THREADS)


def new_log(quant: str) -> Path:
    """A fresh log file in the cache folder; of older ones the newest few are kept. Raises EngineUnavailable."""
    folder = cache_dir() / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        old = sorted(folder.glob("builtin-*.log"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in old[_KEPT_LOGS - 1 :]:
            path.unlink(missing_ok=True)
        number, name = tempfile.mkstemp(prefix=f"builtin-{quant}-", suffix=".log", dir=folder)
    except OSError as error:
        raise EngineUnavailable(
            f"can't write a log in {folder}: {error.strerror}; set WORKBENCH_CACHE to a folder you may write to"
        ) from error
    os.close(number)
    return Path(name)


def log_reason(log: Path, limit: int = 240) -> str:
    """What the log says went wrong: its first error line (the cause; the others follow from it), else its end."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    errors = [line.split(" E ", 1)[1] for line in lines if " E " in line]
    return one_line(errors[0] if errors else " ".join(lines[-3:]), limit)


def serve(options: argparse.Namespace, model: Path, *, until_stdin_closes: bool = False) -> int:
    """Serve a weights file until told to end. The process's stdout and stderr are the log's from here on.

    Ends the process itself (`os._exit`) once it has served, since llama.cpp's threads can't be waited for; returns 3, after
    one line on stderr, when it couldn't. SIGTERM that comes while the model loads (1-2 s) takes effect after.
    """
    said, told = os.dup(1), os.dup(2)
    try:
        with _Ends(until_stdin_closes) as ends:
            log = options.log.absolute() if options.log else new_log(options.quant)
            _redirect_output(log)
            # Relative to the weights' folder, so that what GET /props shows holds no home directory.
            os.chdir(model.parent)
            server = _start(options, model, log)
            with contextlib.suppress(BrokenPipeError):  # whoever started this is gone: `ends` will know
                os.write(said, f"{server.listening_address}/v1\n".encode())
            os._exit(ends.wait())
    except EngineUnavailable as error:
        os.write(told, f"{error}\n".encode())
    except OSError as error:
        os.write(told, f"can't serve {model.name}: {error.strerror}: {error.filename}\n".encode())
    return 3


def main(arguments: list[str] | None = None) -> int:
    """The process's own command line."""
    parser = argparse.ArgumentParser(prog="serve_builtin", description="The built-in engine's server process.")
    add_arguments(parser)
    parser.add_argument("--model", type=Path, help="another GGUF file to serve")
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="end at the end of stdin, and with the parent"
    )
    options = parser.parse_args(arguments)
    if options.until_stdin_closes:
        _die_with_parent()
    try:
        model = options.model.absolute() if options.model else ensure_weights(options.quant)
    except EngineUnavailable as error:
        print(error, file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    return serve(options, model, until_stdin_closes=options.until_stdin_closes)


class _Ends:
    """What ends the server: a signal, or the end of stdin. Signals that come early are kept until asked for."""

    def __init__(self, until_stdin_closes: bool) -> None:
        self._inputs = [0] if until_stdin_closes else []

    def __enter__(self) -> _Ends:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        """Only when it couldn't serve: the process is about to end, and the usual handlers do."""
        signal.set_wakeup_fd(-1)
        os.close(self._read)
        os.close(self._write)

    def wait(self) -> int:
        """Block until the end; the exit status."""
        while True:
            for ready in select.select([self._read, *self._inputs], [], [])[0]:
                data = os.read(ready, 4096)
                if ready == self._read:
                    return 130 if signal.SIGINT in data else 0
                if not data:
                    return 0


def _start(options: argparse.Namespace, model: Path, log: Path) -> Any:
    """The running xllamacpp server; EngineUnavailable when it can't be had."""
    try:
        import xllamacpp
    except ImportError as error:
        raise EngineUnavailable(
            f"the built-in engine can't be loaded ({one_line(str(error), 160)}): pip install 'inference-workbench[local]'"
        ) from error
    if not model.is_file():
        raise EngineUnavailable(f"can't serve {model}: there is no such file")
    if options.port and _is_taken(options.port):
        raise EngineUnavailable(f"port {options.port} on {LOOPBACK} is taken: choose another with --port, or 0 for any")
    try:
        return xllamacpp.Server(_parameters(xllamacpp, options, model))
    except RuntimeError as error:
        reason = log_reason(log) or one_line(str(error))
        raise EngineUnavailable(f"can't serve {model.name}: {reason} (log: {log})") from error


def _parameters(xllamacpp: Any, options: argparse.Namespace, model: Path) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model.name
    parameters.model_alias = {MODEL_ALIAS if options.model is None else model.stem}
    parameters.n_parallel = options.slots
    parameters.n_ctx = options.slots * options.context
    parameters.cpuparams.n_threads = options.threads or default_threads()
    parameters.hostnames = [LOOPBACK]
    parameters.port = options.port
    parameters.n_threads_http = HTTP_THREADS
    parameters.endpoint_metrics = parameters.endpoint_slots = parameters.endpoint_props = True
    parameters.ui = False
    # Any web page in the user's browser could otherwise read from the server.
    parameters.cors_origins = f"http://{LOOPBACK}"
    # What was asked for is served, or nothing: by default llama.cpp shrinks the context where memory is short.
    parameters.fit_params = False
    # By default it keeps up to 8 GiB of old prompts beside the slots; a slot still reuses its own last prompt.
    parameters.cache_ram_mib = 0
    return parameters


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def _redirect_output(log: Path) -> None:
    """Native code writes to descriptors 1 and 2 whatever Python thinks of them: both become the log."""
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)


def _die_with_parent() -> None:
    """On Linux the kernel ends this process when its parent dies, even while the model loads and stdin isn't watched."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def _port(text: str) -> int:
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return number


if __name__ == "__main__":
    sys.exit(main())
