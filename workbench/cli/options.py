"""The options of `run`, shared by every verb that measures: spelled, checked and turned into settings and plans."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import msgspec

from workbench.cli.gates import Gate, parse_gate
from workbench.domain.plan import (
    LIMITS,
    Plan,
    Timeouts,
    arm_settings,
    default_requests,
    interleaved,
    parse_limit,
)
from workbench.domain.variables import CONTROLLED, BadInput, Setting, VariableValue, parse_value, with_value
from workbench.session.options import BenchOptions

AB_ROUNDS = 6
MOST_REQUESTS = 1_000_000
MOST_STREAMS = 65_536
MOST_RATE = 100_000.0
LONGEST = 1e9
SESSIONS_VARIABLE = "WORKBENCH_SESSIONS"

_PLAIN = ("model", "engine", "quant", "max_tokens", "temperature", "seed", "system")


class RunOptions(msgspec.Struct, kw_only=True):
    """What was asked for. `given` names the options that were typed; None and "" are "not said".

    `setting` holds the variables as given, with the first value of the varied one. Times are seconds.
    """

    given: frozenset[str]
    setting: Setting
    target: str = ""
    varied: str = ""
    values: tuple[VariableValue, ...] = ()
    requests: int | None = None
    warmup: int = 3
    rounds: int | None = None
    rate: float | None = None
    arrival: str = "closed"
    duration: float | None = None
    limits: dict[str, float] = {}
    timeouts: Timeouts = Timeouts()
    workers: int = 0
    budget: float | None = None
    until: float | None = None
    tokenizer: Path | None = None
    server_log: Path | None = None
    fingerprint: bool = False
    name: str = ""
    note: str = ""
    sessions: Path | None = None
    events: bool = False
    ca: str = ""
    yes: bool = False
    json: bool = False
    plots: bool = False
    gates: tuple[Gate, ...] = ()
    declared: dict[str, str] = {}


class Once(argparse.Action):
    """An option that says one thing; given twice, the first would be lost without a word."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest, None) is not None:
            parser.error(f"{option_string} given twice: one variable is flipped at a time")
        setattr(namespace, self.dest, values)


def add_run_options(parser: argparse.ArgumentParser, rounds: int = 1) -> None:
    """Add every option of `run`. None of them has a default here, so that what was typed can be told from what was not."""
    add = parser.add_argument_group("which server").add_argument
    add("--base-url", metavar="URL", help="the server's address, like http://127.0.0.1:8000/v1")
    add("--target", metavar="NAME", help="a server named in workbench.toml, or built-in")
    add("--engine", metavar="NAME", help="the server of this engine: ollama, vllm, llama.cpp, ..., built-in")
    add("--ca", metavar="FILE", help="certificates of a private authority (PEM)")
    add("--yes", action="store_true", help="agree to send to a server outside this machine and private networks")
    add("--declare", metavar="KEY=VALUE", action="append", help="a fact that you know and the server doesn't tell")

    add = parser.add_argument_group("what is sent").add_argument
    add("--model", metavar="NAME", help="the model; default: the only or the loaded one")
    add("--quant", metavar="NAME", help="the quantization, where the engine lets it be chosen")
    add("--prompt", metavar="NAME|FILE", action="append", help="short, document, code, chinese, near-limit or a file")
    add("--max-tokens", metavar="N", help="limit of each reply (default 512)")
    add("--temperature", metavar="T", help="default 0")
    add("--seed", metavar="N", help="seed of the sampling, and of the order of an A/B")
    add("--stop", metavar="S", action="append", help="a stop word (repeatable)")
    add("--system", metavar="TEXT", help="a system prompt")
    add("--body", metavar="KEY=JSON", action="append", help="""another request field, like reasoning_effort='"none"'""")
    add("--ignore-eos", action="store_true", help="have replies run to max-tokens, on servers that know the field")
    add("--cache", metavar="unique|warm", help="unique: every prompt differs from its first token on (default)")
    add("--no-stream", action="store_true", help="ask for whole replies; then there is no TTFT")

    add = parser.add_argument_group("how much, and in which order").add_argument
    add("--concurrency", metavar="N[,N...]", help="requests in flight at once; several values make a ladder")
    add("--vary", metavar="VAR=V1,V2", action=Once, help=f"the one variable to flip: {', '.join(CONTROLLED)}")
    add("--requests", metavar="N", help="measured requests a cell (default: at least 20, more at high concurrency)")
    add("--warmup", metavar="N", help="requests before a side starts, left out (default 3)")
    add("--rounds", metavar="N", help=f"repeats of every cell (default {rounds})")
    add("--duration", metavar="S", help="measure each cell for so many seconds, in place of --requests")
    add("--rate", metavar="R", help="open loop: send R requests a second, whatever the server does")
    add("--arrival", metavar="poisson|constant", help="how an open loop's requests are spaced (default poisson)")
    add("--limit", metavar="NAME=N", action="append", help=f"a limit to keep (p95): {', '.join(LIMITS)}")
    add("--budget", metavar="SECONDS", help="start no cell that would end later than this")
    add("--workers", metavar="N", help="measuring processes (default: by the concurrency)")
    add("--tokenizer", metavar="FILE", help="tokenizer.json to count with, where the server doesn't")
    add("--fingerprint", action="store_true", help="know servers by a fixed reply, and weights files by their hash")
    add(
        "--server-log", metavar="FILE", help="follow the log of a server started elsewhere; its error lines are counted"
    )
    add("--timeout-connect", metavar="S", help="default 10")
    add("--timeout-first-byte", metavar="S", help="default 600")
    add("--timeout-idle", metavar="S", help="default 120")

    add = parser.add_argument_group("what is kept and told").add_argument
    add("--name", help="a name for the session")
    add("--note", help="a note to keep in it")
    add("--sessions", metavar="DIR", help=f"where sessions are saved (default ./sessions, or ${SESSIONS_VARIABLE})")
    add("--no-save", action="store_true", help="save nothing")
    add("--events", action="store_true", help="keep every chunk's stamp in a file beside the session")
    add("--json", action="store_true", help="print the record as JSON")
    add("--plots", action="store_true", help="print plots even when the output is no terminal")
    add(
        "--fail-on",
        metavar="EXPR",
        action="append",
        help="exit 1 when it holds: 'ttft_ms.p95>500', 'verdict.ttft=slower'",
    )


def run_options(namespace: argparse.Namespace) -> RunOptions:
    """The options as values. Raises BadInput, one line that names the option and what it takes."""
    given = frozenset(name for name, value in vars(namespace).items() if value not in (None, False))
    typed = vars(namespace)
    varied, values = _varied(typed)
    setting = _setting(typed)
    if varied:
        setting = with_value(setting, varied, values[0])
    for streams in values if varied == "concurrency" else (setting.concurrency,):
        if isinstance(streams, int) and streams > MOST_STREAMS:
            raise BadInput(f"concurrency {streams}: {MOST_STREAMS} is the most that one machine can open to a server")
    rate = _number(typed, "rate", above=0, most=MOST_RATE)
    arrival = typed.get("arrival") or ("poisson" if rate is not None else "closed")
    if arrival not in ("poisson", "constant", "closed"):
        raise BadInput(f"--arrival {arrival!r}: it is poisson or constant")
    if rate is None and typed.get("arrival"):
        raise BadInput("--arrival spaces the requests of an open loop: give --rate too")
    if rate is not None and varied == "concurrency":
        raise BadInput("--rate sends on a schedule and has no concurrency to vary: leave one of them out")
    duration = _number(typed, "duration", above=0)
    if duration is not None and typed.get("requests"):
        raise BadInput("--duration and --requests both say when a cell ends: give one of them")
    usual = Timeouts()
    return RunOptions(
        given=given,
        setting=setting,
        target=typed.get("target") or "",
        varied=varied,
        values=values,
        requests=_whole(typed, "requests", 1, MOST_REQUESTS),
        warmup=3 if (warmup := _whole(typed, "warmup", 0, 1000)) is None else warmup,
        rounds=_whole(typed, "rounds", 1, 1000),
        rate=rate,
        arrival=arrival,
        duration=duration,
        limits=dict(parse_limit(text) for text in typed.get("limit") or ()),
        timeouts=Timeouts(
            connect=_number(typed, "timeout_connect", above=0) or usual.connect,
            first_byte=_number(typed, "timeout_first_byte", above=0) or usual.first_byte,
            idle=_number(typed, "timeout_idle", above=0) or usual.idle,
        ),
        workers=_whole(typed, "workers", 0, 256) or 0,
        budget=_number(typed, "budget", above=0),
        until=_share(typed, "until"),
        tokenizer=_file(typed, "tokenizer"),
        server_log=_file(typed, "server_log"),
        fingerprint=bool(typed.get("fingerprint")),
        name=typed.get("name") or "",
        note=typed.get("note") or "",
        sessions=sessions_folder(typed.get("sessions"), bool(typed.get("no_save"))),
        events=bool(typed.get("events")),
        ca=str(_file(typed, "ca") or ""),
        yes=bool(typed.get("yes")),
        json=bool(typed.get("json")),
        plots=bool(typed.get("plots")),
        gates=tuple(map(parse_gate, typed.get("fail_on") or ())),
        declared=dict(_pair("--declare", text) for text in typed.get("declare") or ()),
    )


def sessions_folder(given: str | None, no_save: bool = False) -> Path | None:
    """Where sessions go: the folder given, else that of the environment, else ./sessions; None when nothing is saved."""
    if no_save:
        return None
    return Path(given or os.environ.get(SESSIONS_VARIABLE) or "sessions").expanduser()


def _setting(typed: dict[str, Any]) -> Setting:
    values: dict[str, Any] = {}
    for name in _PLAIN:
        text = typed.get(name)
        if text is None:
            continue
        if name == "max_tokens" and not _is_positive(text):
            raise BadInput(
                f"--max-tokens {text}: give 1 or more; without a limit the length of the replies is measured, not the server"
            )
        values[name] = text if name == "system" else parse_value(name, text)
    if typed.get("prompt"):
        values["prompt"] = tuple(str(parse_value("prompt", text)) for text in typed["prompt"])
    if typed.get("stop"):
        values["stop"] = tuple(typed["stop"])
    if typed.get("cache"):
        values["cache"] = parse_value("cache", typed["cache"])
    if typed.get("concurrency") and "," not in typed["concurrency"]:
        values["concurrency"] = parse_value("concurrency", typed["concurrency"])
    return Setting(
        base_url=(typed.get("base_url") or "").strip(),
        stream=not typed.get("no_stream"),
        ignore_eos=bool(typed.get("ignore_eos")),
        body=dict(_field(text) for text in typed.get("body") or ()),
        **values,
    )


def _is_positive(text: str) -> bool:
    try:
        return int(text) > 0
    except ValueError:
        return False


def _varied(typed: dict[str, Any]) -> tuple[str, tuple[VariableValue, ...]]:
    vary, ladder = typed.get("vary"), typed.get("concurrency") or ""
    if vary and "," in ladder:
        raise BadInput("--vary and several --concurrency values are two variables: flip one at a time")
    if "," in ladder:
        values = _values("concurrency", ladder)
        if not values:
            raise BadInput(f"--concurrency {ladder!r}: give numbers, like 1,2,4")
        return "concurrency", values
    if not vary:
        return "", ()
    name, equals, text = vary.partition("=")
    name = name.strip().replace("-", "_")
    if not equals:
        raise BadInput(f"--vary {vary!r}: write VAR=V1,V2 with VAR one of {', '.join(CONTROLLED)}")
    values = _values(name, text)
    if len(values) < 2:
        raise BadInput(f"--vary {vary!r}: give at least two values, like {name}={text or 'A'},{text or 'A'}-other")
    if name == "concurrency" and ladder:
        raise BadInput("--vary concurrency and --concurrency say the same thing: give one of them")
    return name, values


def _values(name: str, text: str) -> tuple[VariableValue, ...]:
    return tuple(parse_value(name, part) for part in text.split(",") if part.strip() or name in ("seed", "stop"))


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise BadInput(f"{option} {text!r}: write KEY=VALUE")
    return key.strip(), value.strip()


FIXED_FIELDS = ("model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n")


def _field(text: str) -> tuple[str, Any]:
    key, value = _pair("--body", text)
    if key in FIXED_FIELDS:
        raise BadInput(f"--body {key}: Workbench sets this field itself")
    try:
        # Read strictly: NaN and Infinity are not JSON, and a record could not hold them.
        return key, json.loads(value, parse_constant=_no_constant)
    except RecursionError:
        raise BadInput(f"--body {key}: it is nested too deeply") from None
    except ValueError:
        raise BadInput(f"""--body {text!r}: {value!r} is not JSON; a word needs quotes: {key}='"{value}"'""") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _number(typed: dict[str, Any], name: str, above: float, most: float = LONGEST) -> float | None:
    text = typed.get(name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        raise BadInput(f"{_option(name)} {text!r} is not a number") from None
    if not above < number <= most:
        raise BadInput(f"{_option(name)} {text}: it must be above {above:g} and no more than {most:g}")
    return number


def _share(typed: dict[str, Any], name: str) -> float | None:
    text = typed.get(name)
    if text is None:
        return None
    percent = _number({name: str(text).removesuffix("%")}, name, above=0)
    return None if percent is None else percent / 100


def _whole(typed: dict[str, Any], name: str, least: int, most: int) -> int | None:
    text = typed.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise BadInput(f"{_option(name)} {text!r} is not a whole number") from None
    if not least <= number <= most:
        raise BadInput(f"{_option(name)} {text}: it must be from {least} to {most}")
    return number


def _file(typed: dict[str, Any], name: str) -> Path | None:
    text = typed.get(name)
    if not text:
        return None
    path = Path(text).expanduser()
    if not path.is_file():
        raise BadInput(f"{_option(name)} {text}: no such file")
    return path


def plan_of(options: RunOptions, setting: Setting, ab: bool = False) -> Plan:
    """The plan: `setting` as the connected target settled it, with the variables as asked for.

    `ab`: the order is interleaved and counterbalanced, and there are six rounds unless another number was given.
    """
    rounds = options.rounds or (AB_ROUNDS if ab else 1)
    seed = options.setting.seed or 0
    return Plan(
        baseline=setting,
        varied=options.varied,
        values=options.values,
        rounds=rounds,
        order=interleaved(max(len(options.values), 1), rounds, seed, counterbalance=ab),
        warmup=options.warmup,
        requests=options.requests or default_requests(setting.concurrency, ab),
        duration=options.duration,
        arrival=options.arrival,  # type: ignore[arg-type]
        rate=options.rate,
        limits=options.limits,
        seed=seed,
        timeouts=options.timeouts,
        workers=options.workers,
        budget=options.budget,
        until=options.until,
    )


def requests_of(options: RunOptions, plan: Plan, ab: bool = False) -> dict[str, int]:
    """Requests of each arm's cells when none were asked for and the arms differ in concurrency; else empty."""
    if options.requests is not None or plan.varied != "concurrency":
        return {}
    return {arm: default_requests(setting.concurrency, ab) for arm, setting in arm_settings(plan).items()}


def bench_options(options: RunOptions, command: str) -> BenchOptions:
    """What the bench needs of the options. `command`: the command line as typed, made fit to keep."""
    return BenchOptions(
        setting=options.setting,
        target=options.target,
        sessions=options.sessions,
        ca_file=options.ca,
        tokenizer=options.tokenizer,
        server_log=options.server_log,
        fingerprint=options.fingerprint,
        consent=options.yes,
        command=command,
        declared=options.declared,
        events=options.events,
    )
