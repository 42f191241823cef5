"""Finding servers: where is looked, in which order, what is said of each place, and that no server can hold it up."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from replay import replaying, response, wire

from workbench.engines import discover as module
from workbench.engines.discover import Found, check_model, discover, ollama_url
from workbench.engines.http import HttpTrouble, parse_url
from workbench.engines.recognise import recognise

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[int]:
    """A raw TCP server on a free loopback port; its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for task in tasks:
            task.cancel()
        server.close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def only(port: int, label: str = "vLLM") -> Found:
    found = await discover({}, ports=((port, label),))
    assert len(found) == 1
    return found[0]


async def test_nothing_listens_is_said_quickly_and_by_place() -> None:
    port = free_port()
    began = time.perf_counter()
    found = await discover({}, ports=(*((free_port(), "vLLM") for _ in range(4)), (port, "Ollama")))
    assert time.perf_counter() - began < 1
    assert found[-1].trouble == f"the usual port of Ollama: nothing listens at 127.0.0.1:{port}"
    assert {place.kind for place in found} == {"refused"}


async def test_a_server_is_found_with_its_models() -> None:
    async with replaying(wire("vllm")) as replay:
        found = await only(replay.port)
    assert (found.engine, found.trouble, found.base_url) == ("vllm", "", f"http://127.0.0.1:{replay.port}/v1")
    assert [entry.id for entry in found.models] == ["smollm2"]
    assert found.key_env == ""


async def test_order_is_openai_then_ollama_then_ports_and_none_comes_twice() -> None:
    async with (
        replaying(wire("vllm")) as vllm,
        replaying(wire("ollama")) as ollama,
        replaying(wire("llama.cpp")) as cpp,
    ):
        env = {"OPENAI_BASE_URL": f"http://localhost:{vllm.port}/v1/", "OLLAMA_HOST": f"0.0.0.0:{ollama.port}"}
        ports = ((ollama.port, "Ollama"), (vllm.port, "vLLM"), (cpp.port, "llama.cpp"))
        found = await discover(env, ports=ports)
    assert [(place.where, place.engine) for place in found] == [
        ("OPENAI_BASE_URL", "vllm"),
        ("OLLAMA_HOST", "ollama"),
        ("the usual port of llama.cpp", "llama.cpp"),
    ]
    assert [place.named for place in found] == [True, True, False]


async def test_the_key_goes_to_openai_base_url_alone() -> None:
    async with (
        replaying(wire("vllm")) as named,
        replaying(wire("ollama")) as ollama,
        replaying(wire("llama.cpp")) as port,
    ):
        env = {
            "OPENAI_BASE_URL": named.url,
            "OPENAI_API_KEY": "sk-abc123",
            "OLLAMA_HOST": f"127.0.0.1:{ollama.port}",
        }
        found = await discover(env, ports=((port.port, "llama.cpp"),))
        assert all(headers["authorization"] == "Bearer sk-abc123" for _, headers, _ in named.asked)
        assert not any("authorization" in headers for _, headers, _ in ollama.asked + port.asked)
    assert [place.key_env for place in found] == ["OPENAI_API_KEY", "", ""]
    assert "sk-abc123" not in repr(found)


async def test_a_refused_key_is_named_by_its_variable() -> None:
    routes = {"GET /v1/models": response(b'{"error":"bad key sk-abc123"}', 401, "application/json")}
    async with replaying(routes) as replay:
        found = await discover({"OPENAI_BASE_URL": replay.url, "OPENAI_API_KEY": "sk-abc123"}, ports=())
    assert found[0].trouble == (
        f"OPENAI_BASE_URL: 127.0.0.1:{replay.port} refuses the key (HTTP 401) in OPENAI_API_KEY"
    )
    assert found[0].kind == "key"


async def test_another_program_is_said_to_be_no_llm_server() -> None:
    missing = response(b"<html>404</html>", 404, "text/html", Server="nginx/1.25")
    async with replaying({}, missing=missing) as replay:
        found = await only(replay.port)
    assert found.kind == "not an llm server"
    assert found.trouble.endswith("answers, but isn't an LLM server: 'nginx/1.25', HTTP 404 at /v1/models")


async def test_a_page_for_every_path_is_no_llm_server() -> None:
    async with replaying({}, missing=response(b"<html>hello</html>", 200, "text/html")) as replay:
        assert (await only(replay.port)).kind == "not an llm server"


async def test_a_redirect_is_not_followed_but_named() -> None:
    async with replaying({}, missing=response(b"", 301, Location="https://user:pw@other.example/v1?key=1")) as replay:
        found = await only(replay.port)
    assert "redirects to https://other.example: give that address instead" in found.trouble
    assert "pw" not in found.trouble
    assert len(replay.asked) == len({asked for asked, _, _ in replay.asked})


async def test_no_model() -> None:
    routes = wire("ollama")
    routes["GET /v1/models"] = response(b'{"object":"list","data":null}', 200, "application/json")
    routes["GET /api/tags"] = {"models": []}
    async with replaying(routes) as replay:
        found = await only(replay.port, "Ollama")
    assert found.kind == "no model"
    assert found.trouble.endswith("has no model")


async def test_a_server_that_loads_says_so() -> None:
    routes = wire("llama.cpp")
    loading = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
    routes = dict.fromkeys(routes, response(loading, 503, "application/json", Server="llama.cpp"))
    async with replaying(routes) as replay:
        found = await only(replay.port)
    assert (found.engine, found.kind) == ("llama.cpp", "loading")


async def test_a_list_that_fails_leaves_a_server_for_a_typed_model() -> None:
    async with replaying(wire("transformers-serve")) as replay:
        found = await only(replay.port)
        assert (found.engine, found.trouble, found.models) == ("transformers-serve", "", ())
        assert found.server is not None
        assert await check_model(found.server, "any/model") == ""


async def test_the_model_is_checked_against_the_list() -> None:
    async with replaying(wire("vllm")) as replay:
        server = await recognise(replay.url)
        assert await check_model(server, "smollm2") == ""
        assert await check_model(server, "smollm") == "no such model: smollm; it has: smollm2"


async def test_hostile_names_are_harmless() -> None:
    routes = {"GET /v1/models": {"object": "list", "data": [{"id": "a\x1b]0;x\x07\nb", "owned_by": "\x1b[2J"}]}}
    async with replaying(routes) as replay:
        server = await recognise(replay.url)
        sentence = await check_model(server, "\x1b[31mx")
    assert "\x1b" not in sentence
    assert "\n" not in sentence


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def drip_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x: y\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        writer.write(b" " * (1 << 16))
        await writer.drain()


async def endless_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"H" * (1 << 16))
        await writer.drain()


async def ssh_banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2p1\r\n")
    await reader.read()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def cut_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"data":')
    await writer.drain()


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (hang, "timeout"),
        (drip_headers, "timeout"),
        (endless_body, "too long"),
        (endless_line, "not http"),
        (ssh_banner, "not http"),
        (hang_up, "broken"),
        (cut_body, "broken"),
    ],
)
async def test_no_server_can_hold_it_up(handler: Handler, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORT_TIMEOUT_S", 1.0)
    async with listening(handler) as port:
        began = time.perf_counter()
        found = await discover({}, ports=((port, "vLLM"),))
        assert time.perf_counter() - began < 5
    assert found[0].kind == kind
    assert found[0].trouble
    assert "\n" not in found[0].trouble


async def test_plain_http_where_tls_was_asked_for() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(response(b"plain", 400))
        await writer.drain()

    async with listening(refuse) as port:
        with pytest.raises(HttpTrouble, match="no TLS connection") as trouble:
            await recognise(f"https://127.0.0.1:{port}")
    assert trouble.value.kind == "tls"


async def test_an_own_authority_is_trusted_only_when_given(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    made = await asyncio.create_subprocess_exec(
        *command.split(), "-keyout", key, "-out", certificate, stderr=asyncio.subprocess.DEVNULL
    )
    assert await made.wait() == 0
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with replaying(wire("vllm"), tls=context) as replay:
        url = f"https://127.0.0.1:{replay.port}"
        with pytest.raises(HttpTrouble, match=r"isn't trusted.*--ca FILE") as trouble:
            await recognise(url)
        assert trouble.value.kind == "tls"
        server = await recognise(url, ca=str(certificate))
        assert server.engine.name == "vllm"
        with pytest.raises(HttpTrouble, match="can't be used"):
            await recognise(url, ca=str(tmp_path / "none.pem"))


async def test_no_such_host_and_a_bad_url() -> None:
    with pytest.raises(HttpTrouble, match="no such host") as trouble:
        await recognise("http://no-such-host.invalid:8000/v1")
    assert trouble.value.kind == "no such host"
    found = await discover({"OPENAI_BASE_URL": "ftp://user:secret@h/x?key=secret"}, ports=())
    assert found[0].kind == "bad url"
    assert "secret" not in found[0].trouble


async def test_a_key_that_could_split_a_header_is_not_sent() -> None:
    async with replaying(wire("vllm")) as replay:
        with pytest.raises(HttpTrouble, match="the key holds characters"):
            await recognise(replay.url, key="a\r\nX: y")
        assert not replay.asked


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("h", "http://h:11434/v1"),
        ("h:99", "http://h:99/v1"),
        (":99", "http://127.0.0.1:99/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:99", "http://127.0.0.1:99/v1"),
        ("[::]:99", "http://[::1]:99/v1"),
        ("[::1]:99", "http://[::1]:99/v1"),
        ("::1", "http://[::1]:11434/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ('"h:99"', "http://h:99/v1"),
        (" 'h' ", "http://h:11434/v1"),
        ("http://h", "http://h:80/v1"),
        ("https://h", "https://h:443/v1"),
        ("http://h:99/", "http://h:99/v1"),
        ("https://h/ollama", "https://h:443/ollama/v1"),
        ("h:bad", "http://h:11434/v1"),
        ("h:99999", "http://h:11434/v1"),
        ("http://user:pw@h:99", "http://h:99/v1"),
        ("ollama.com", "https://ollama.com:443/v1"),
    ],
)
def test_ollama_host_in_all_its_spellings(value: str, url: str) -> None:
    assert ollama_url(value) == url


@pytest.mark.parametrize(
    ("given", "api", "root"),
    [
        ("http://h:8000", "http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/", "http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/v1", "http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/v1/", "http://h:8000/v1", "http://h:8000"),
        ("h:8000", "http://h:8000/v1", "http://h:8000"),
        ("https://h/openai/v1", "https://h/openai/v1", "https://h/openai"),
        ("https://h/api/paas/v4", "https://h/api/paas/v4", "https://h/api/paas"),
        ("http://user:pw@h:8000/v1?key=x#y", "http://h:8000/v1", "http://h:8000"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1", "http://[::1]:8000"),
    ],
)
def test_base_urls_are_made_one_way(given: str, api: str, root: str) -> None:
    address = parse_url(given)
    assert (address.api, address.root) == (api, root)


async def test_a_version_of_the_path_is_kept() -> None:
    listed = {"object": "list", "data": [{"id": "m", "owned_by": "x"}]}
    async with replaying({"GET /api/paas/v4/models": listed}) as replay:
        server = await recognise(f"http://127.0.0.1:{replay.port}/api/paas/v4")
        assert server.base_url == f"http://127.0.0.1:{replay.port}/api/paas/v4"
        assert [entry.id for entry in await server.models()] == ["m"]
