"""Checks on where it ran: hardware, software, the measuring client, memory."""

from __future__ import annotations

from typing import Any

from workbench.domain.cell import ClientFitness, judge_client
from workbench.domain.checks.identity import ONE_SERVER, before_now, shown
from workbench.domain.checks.result import KINDS, CheckResult, Findings
from workbench.domain.checks.side import Pair, Side

MEMORY_FULL = 0.95
SWAP_MIB = 16
BUNCHED = 0.5


def _gpus(side: Side) -> list[dict[str, Any]]:
    listed = side.environment.get("gpu", [])
    return [gpu for gpu in listed if isinstance(gpu, dict)] if isinstance(listed, list) else []


def _table(side: Side, name: str) -> dict[str, Any]:
    table = side.environment.get(name)
    return table if isinstance(table, dict) else {}


def _describes_server(side: Side) -> bool:
    """Whether host and GPU of the record are the server's (older and imported records don't say: then they are)."""
    scope = str(side.environment.get("scope", ""))
    return not scope or scope.startswith("The server is on this machine")


def hardware(pair: Pair) -> CheckResult:
    """The same device on both sides, undisturbed."""
    found = Findings("hardware")
    if pair.b is not None and not pair.one_record:
        _devices(found, pair.a, pair.b)
    devices = [side.fact("device") for side in pair.sides]
    if len(devices) == 2 and None not in devices and devices[0] != devices[1]:
        found.fail(f"the device differs: {before_now(*devices)}", "run both sides on one device")
    for side in pair.sides:
        word = f" {pair.word(side)}" if pair.word(side) else ""
        for neighbour in side.evidence("neighbours")[:1]:
            found.doubt(f"others used the GPU{word}: {shown(neighbour)}", "measure when the GPU is yours alone")
        for reason in side.evidence("throttle")[:1]:
            found.doubt(f"clocks were lowered{word}: {shown(reason)}", "let it cool, or raise the power limit")
        if any(_number(value) > 0 for value in side.evidence("cpu_throttles")):
            found.doubt(f"the CPU was slowed for heat{word}", "let it cool, then run again")
        swap = max((_number(value) for value in side.evidence("swap_in_mib")), default=0.0)
        if swap >= SWAP_MIB:
            found.doubt(f"{swap:.0f} MiB came back from swap{word}", "free memory, then run again")
    return found.result("one machine" if pair.one_record else "the same machine")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _devices(found: Findings, a: Side, b: Side) -> None:
    if not _describes_server(a) or not _describes_server(b):
        if not (a.server and a.setting.base_url == b.setting.base_url):
            found.doubt("the server's own hardware is not known", "run Workbench on the server's machine")
        return
    hosts = [_table(side, "host") for side in (a, b)]
    gpus = [_gpus(side) for side in (a, b)]
    if any(gpus):
        names = [" + ".join(shown(gpu.get("name", "unknown")) for gpu in each) or None for each in gpus]
        if names[0] != names[1]:
            found.fail(f"the GPU differs: {before_now(*names)}", "run both sides on one device")
        else:
            for key, words in (("memory_mib", "GPU memory"), ("driver", "driver"), ("power_limit_w", "power limit")):
                told = [[gpu.get(key) for gpu in each] for each in gpus]
                if told[0] != told[1] and all(value is not None for each in told for value in each):
                    found.doubt(f"the {words} differs: {before_now(*told)}", "bring it back to the same")
    cpus = [host.get("cpu") for host in hosts]
    if None not in cpus and cpus[0] != cpus[1]:
        text = f"the CPU differs: {before_now(*cpus)}"
        if any(gpus):
            found.doubt(text, "run both sides on one machine")
        else:
            found.fail(text, "run both sides on one machine")
    if not any(gpus) and None in cpus and hosts[0] != hosts[1]:
        found.doubt("the hardware of a side is unknown", "name it with --declare, see `workbench doctor`")
    for key, words in (("memory_mib", "memory"), ("virtualization", "virtualization"), ("governor", "CPU governor")):
        values = [host.get(key) for host in hosts]
        if None not in values and values[0] != values[1]:
            found.doubt(f"the host's {words} differs: {before_now(*values)}", "run both sides on one machine")


def software(pair: Pair) -> CheckResult:
    """Engine version and flags, context and slots, CUDA and driver; what follows from a flipped engine is exempt."""
    found = Findings("software")
    if pair.b is None:
        return found.result()
    if not pair.one_server:
        unknown = []
        for name in ("version", "flags", "context", "slots", "flash_attention"):
            if pair.follows(name):
                continue
            a, b = pair.facts(name)
            if a is not None and b is not None and a != b:
                found.doubt(
                    f"the engine's {name.replace('_', ' ')} differs: {before_now(a, b)}", "start both sides alike"
                )
            elif name == "version" and (a is None or b is None):
                unknown.append("engine version")
        if unknown:
            found.doubt(f"{', '.join(unknown)} unknown on a side", "name it with --declare, see `workbench doctor`")
    if not pair.one_record:
        tables = [_table(side, "software") for side in pair.sides]
        for name in ("cuda", "driver", "rocm"):
            a, b = (table.get(name) for table in tables)
            if a is not None and b is not None and a != b:
                found.doubt(f"{name} differs: {before_now(a, b)}", "bring both sides to the same")
    return found.result(ONE_SERVER if pair.one_server else "the same software on both sides")


def client(pair: Pair) -> CheckResult:
    """The measuring client kept up, and nothing between it and the server gathered the stream."""
    found = Findings("client")
    for side in pair.sides:
        word = f" {pair.word(side)}" if pair.word(side) else ""
        limited, evidence = client_state(side)
        if limited == "all":
            found.fail(
                f"client-limited{word}: {evidence}", "use --workers 2 or fewer streams, or another machine", KINDS
            )
        elif limited == "ttft":
            found.fail(
                f"client-limited for TTFT{word}: {evidence}", "quieten this machine, or use --workers 2", ("ttft",)
            )
        buffered = sum(cell.decode_absent.get("buffered", 0) for cell in side.cells)
        if side.ok and buffered / side.ok >= BUNCHED:
            found.fail(
                f"the stream came in bunches{word}: {buffered} of {side.ok} replies were buffered on the way",
                "turn off the buffering of the proxy in between",
                ("ttft", "decode_rate"),
            )
    return found.result("the client kept up")


def client_state(side: Side) -> tuple[str, str]:
    """("" | "ttft" | "all", the figures that say so) of the side's worst cell."""
    worst, words = "", ""
    for cell in side.cells:
        lag, share = _number(cell.client.get("lag_p99_ms")), _number(cell.client.get("cpu_share"))
        stats = cell.stats.get("ttft_ms")
        fitness = ClientFitness(lag_p99_ms=lag, cpu_share=share)
        limited = str(cell.client.get("limited") or judge_client(fitness, stats.p50 if stats else None))
        if limited == "all" or (limited == "ttft" and not worst):
            worst = limited
            words = f"its loop ran {lag:.1f} ms late (p99) at {share:.0%} of a core"
    return worst, words


def memory(pair: Pair) -> CheckResult:
    """Room left on the device, as far as it can be seen."""
    found = Findings("memory")
    seen = False
    for side in pair.sides:
        word = f" {pair.word(side)}" if pair.word(side) else ""
        for cell in side.cells:
            full = ""
            for name, use in cell.memory.items():
                peak, total = use.get("peak"), use.get("total")
                if use.get("kind") == "process" or not isinstance(peak, (int, float)):
                    continue
                seen = True
                if isinstance(total, (int, float)) and total > 0 and peak / total > MEMORY_FULL:
                    full = f"{shown(use.get('name', name))} was {peak / total:.0%} full{word}"
            if full:
                found.doubt(
                    full, "use a smaller context, fewer slots or a smaller quantization; a reserved pool looks full too"
                )
                break
    if not seen:
        found.doubt("device memory could not be observed", "run Workbench on the server's machine")
    return found.result("room left")
