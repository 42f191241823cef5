"""Finds servers: those the environment names, then the usual local ports, all asked at once."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Mapping

import msgspec

from workbench.domain.text import one_line
from workbench.engines.base import ModelEntry
from workbench.engines.http import HttpTrouble, parse_url
from workbench.engines.process import is_loopback
from workbench.engines.recognise import Server, check_model, recognise

__all__ = ["USUAL_PORTS", "Found", "check_model", "discover", "ollama_url"]

USUAL_PORTS: tuple[tuple[int, str], ...] = (
    (11434, "Ollama"),
    (8000, "vLLM"),
    (8080, "llama.cpp"),
    (30000, "SGLang"),
    (1234, "LM Studio"),
)
"""Where each engine listens unless told otherwise; several share 8000. TGI and others have no port of their own."""

PORT_TIMEOUT_S = 2.0
NAMED_TIMEOUT_S = 5.0


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A place that was looked at. `trouble` is "" for a server that can be measured, else one line that says why not.

    `where` says why it was looked at ("OPENAI_BASE_URL", "OLLAMA_HOST", "the usual port of vLLM"), `key_env` the
    variable whose key may be sent there, `kind` the trouble's kind for programs ("refused", "key", "no model", ...).
    """

    where: str
    base_url: str
    engine: str = ""
    models: tuple[ModelEntry, ...] = ()
    key_env: str = ""
    trouble: str = ""
    kind: str = ""
    named: bool = False
    server: Server | None = None


async def discover(env: Mapping[str, str], *, ports: tuple[tuple[int, str], ...] = USUAL_PORTS) -> list[Found]:
    """Every place looked at, in the order in which it is to be preferred; the same server never twice.

    Never raises. Takes a moment when nothing listens, and at most a few seconds whatever the servers do.
    """
    jobs = []
    given = env.get("OPENAI_BASE_URL", "").strip()
    if given:
        key_env = "OPENAI_API_KEY" if env.get("OPENAI_API_KEY") else ""
        jobs.append(_look("OPENAI_BASE_URL", given, key_env, env.get("OPENAI_API_KEY", "")))
    if env.get("OLLAMA_HOST", "").strip(" \"'"):
        jobs.append(_look("OLLAMA_HOST", ollama_url(env["OLLAMA_HOST"]), "", ""))
    jobs += [_look_at_port(port, label) for port, label in ports]
    seen: set[tuple[str, int]] = set()
    result = []
    for found in await asyncio.gather(*jobs):
        try:
            address = parse_url(found.base_url)
        except HttpTrouble:
            result.append(found)
            continue
        place = ("loopback" if is_loopback(address.host) else address.host, address.port)
        if place not in seen:
            seen.add(place)
            result.append(found)
    return result


async def _look_at_port(port: int, label: str) -> Found:
    """A port of this machine; on IPv6 when nothing listens there on IPv4."""
    where = f"the usual port of {label}"
    found = await _look(where, f"http://127.0.0.1:{port}/v1", "", "", PORT_TIMEOUT_S, named=False)
    if found.kind != "refused":
        return found
    other = await _look(where, f"http://[::1]:{port}/v1", "", "", PORT_TIMEOUT_S, named=False)
    return found if other.kind in ("refused", "unreachable", "no such host") else other


async def _look(
    where: str, url: str, key_env: str, key: str, timeout: float = NAMED_TIMEOUT_S, named: bool = True
) -> Found:
    shown = Found(where=where, base_url="", key_env=key_env, named=named)
    try:
        shown = msgspec.structs.replace(shown, base_url=parse_url(url).api)
        # The deadline of each question holds; this one bounds their sum.
        async with asyncio.timeout(2 * timeout):
            server = await recognise(url, key=key.strip(), timeout=timeout)
            shown = msgspec.structs.replace(shown, engine=server.engine.name, base_url=server.base_url, server=server)
            models = [entry for entry in await server.models() if entry.id]
    except HttpTrouble as trouble:
        if shown.server is not None and trouble.kind not in ("key", "loading"):
            # A server that can't list its models can still be measured: its model must be named.
            return shown
        sentence = trouble.sentence if trouble.kind != "key" or not key_env else f"{trouble.sentence} in {key_env}"
        return msgspec.structs.replace(shown, trouble=one_line(f"{where}: {sentence}"), kind=trouble.kind, server=None)
    except TimeoutError:
        late = f"{where}: no answer in {2 * timeout:g} s"
        return msgspec.structs.replace(shown, trouble=late, kind="timeout", server=None)
    if not models:
        none = f"{where}: {server.engine.label} at {server.address.place} has no model"
        return msgspec.structs.replace(shown, trouble=none, kind="no model")
    return msgspec.structs.replace(shown, models=tuple(models))


def ollama_url(value: str) -> str:
    """The base URL that Ollama's own client makes of an OLLAMA_HOST, less its user info.

    Blank, `h`, `h:p`, `:p`, `[::1]:p`, bare IPv6, quoted; with `http://` the port is 80 and with `https://` 443 unless it is
    stated; a bad port is taken for the default; 0.0.0.0, `::` and no host mean this machine.
    """
    text = value.strip().strip("\"'").strip()
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
    port = {"http": "80", "https": "443"}.get(scheme, "11434") if separator else "11434"
    if text == "ollama.com":
        scheme, port = "https", "443"
    place, _, path = rest.partition("?")[0].partition("#")[0].partition("/")
    host, stated = _split(place.rpartition("@")[2])
    if re.fullmatch(r"\d{1,5}", stated) and int(stated) <= 65535:
        port = stated
    try:
        if ipaddress.ip_address(host).is_unspecified:
            host = "127.0.0.1" if "." in host else "::1"
    except ValueError:
        host = host or "127.0.0.1"
    path = path.strip("/")
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}{f'/{path}' if path else ''}/v1"


def _split(place: str) -> tuple[str, str]:
    """Host and port of `h:p`, `:p`, `[v6]:p`, `h`, or a bare IPv6 address."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", place)
    if bracketed:
        return bracketed.group(1), bracketed.group(2) or ""
    if place.count(":") == 1:
        host, _, port = place.partition(":")
        return host, port
    return place, ""
