"""The way to a server, with real sockets and real listeners of other names."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from workbench.environment.files import LINUX
from workbench.environment.network import (
    addresses,
    host_and_port,
    is_private,
    is_this_machine,
    listener_pid,
    network_path,
    round_trip_ms,
    server_pid,
)

LISTEN = """
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
input()
"""

FORKED = """
import os, socket
s = socket.create_server(("127.0.0.1", 0))
r, w = os.pipe()
if os.fork() == 0:
    os.close(w)
    os.read(r, 1)
    os._exit(0)
print(s.getsockname()[1], flush=True)
input()
"""


@pytest.fixture
def here() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/v1", ("127.0.0.1", 8000)),
        ("http://[::1]:11434/v1", ("::1", 11434)),
        ("https://api.example.com/v1", ("api.example.com", 443)),
        ("http://localhost@evil.example/v1", ("evil.example", 80)),
    ],
)
def test_host_and_port(url: str, expected: tuple[str, int]) -> None:
    assert host_and_port(url) == expected


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/", "http://", "http://h:99999/", "http://user:secret@/"])
def test_what_is_no_url_is_said_without_quoting_it(url: str) -> None:
    with pytest.raises(ValueError, match="base URL") as caught:
        host_and_port(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "0.0.0.0", "::", "::ffff:127.0.0.1", "localhost"]
)
def test_this_machine(host: str) -> None:
    assert is_this_machine(host)
    assert is_private(host)


@pytest.mark.parametrize(
    "host",
    ["10.1.2.3", "172.31.0.1", "192.168.178.2", "100.100.1.1", "169.254.3.4", "fd00::1", "fe80::1", "::ffff:10.0.0.1"],
)
def test_private_networks(host: str) -> None:
    assert is_private(host)


@pytest.mark.parametrize(
    "host",
    ["8.8.8.8", "172.32.0.1", "192.0.2.1", "203.0.113.9", "100.128.0.1", "2001:4860:4860::8888", "::ffff:8.8.8.8"],
)
def test_public_addresses_need_consent(host: str) -> None:
    assert not is_private(host)
    assert not is_this_machine(host)


def test_an_address_of_an_interface_is_this_machine() -> None:
    entries = [entry for found in psutil.net_if_addrs().values() for entry in found]
    own = [entry.address for entry in entries if entry.family == socket.AF_INET]
    assert own
    assert all(is_this_machine(address) for address in own)
    outside = [address for address in own if not address.startswith("127.")]
    if outside:
        assert network_path(f"http://{outside[0]}:9/v1", measure=False).kind == "this machine"


def test_a_name_that_does_not_resolve_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert addresses("gpu-box.invalid") == []
    assert not is_private("gpu-box.invalid")
    assert network_path("http://gpu-box.invalid:8000/v1").kind == "unknown"


def test_a_name_with_one_public_address_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", ("10.0.0.1", 0)), (0, 0, 0, "", ("8.8.8.8", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    assert not is_private("two-faced.example")
    path = network_path("http://two-faced.example:8000/v1", measure=False)
    assert (path.kind, path.elsewhere) == ("public", True)


def test_the_round_trip_on_loopback(here: int) -> None:
    trip = round_trip_ms("127.0.0.1", here)
    assert trip is not None
    assert 0 < trip < 50
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert round_trip_ms("127.0.0.1", port) is None


def test_a_server_of_our_own(here: int) -> None:
    path = network_path(f"http://127.0.0.1:{here}/v1")
    assert (path.kind, path.elsewhere, path.port) == ("loopback", False, here)
    assert path.server_pid == server_pid(f"http://localhost:{here}/v1") == os.getpid()
    assert path.listener
    assert path.round_trip_ms is not None


def test_nothing_behind_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    path = network_path(f"http://127.0.0.1:{port}/v1")
    assert (path.server_pid, path.round_trip_ms) == (None, None)
    assert "nothing answers" in path.sentence


@pytest.mark.skipif(not LINUX, reason="names a process by its file, as Linux does")
@pytest.mark.parametrize(
    ("name", "kind", "elsewhere"),
    [("ssh", "forwarded", True), ("docker-proxy", "forwarded", False), ("sshfoo", "loopback", False)],
)
def test_a_forwarded_port_is_known_by_who_listens(tmp_path: Path, name: str, kind: str, elsewhere: bool) -> None:
    program = tmp_path / name
    program.symlink_to(Path(sys.executable).resolve())
    with subprocess.Popen(
        [program, "-I", "-S", "-c", LISTEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            port = int(child.stdout.readline())
            path = network_path(f"http://127.0.0.1:{port}/v1")
            assert (path.kind, path.elsewhere, path.listener) == (kind, elsewhere, name)
            assert path.server_pid == (None if kind == "forwarded" else child.pid), "a forwarder is not the server"
        finally:
            child.kill()


@pytest.mark.skipif(not LINUX, reason="forks")
def test_of_processes_that_share_a_port_the_parent_is_the_server() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORKED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            assert listener_pid(int(child.stdout.readline())) == child.pid
        finally:
            child.kill()
