"""The way to a server: this machine, a private network, the public internet, or a forwarded port; and who listens."""

from __future__ import annotations

import ipaddress
import socket
import statistics
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from workbench.environment.files import HERE, LINUX, Files
from workbench.environment.processes import process_name, scan

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Not `is_private` of the standard library: that calls documentation and reserved ranges private too. 100.64.0.0/10 is the
# range of Tailscale and of carriers' NAT; it is not routed on the internet (RFC 6598).
PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "100.64.0.0/10",
        "fc00::/7",
        "fe80::/10",
    )
)

# Listeners that hand a port on, and whether the server behind them is on another machine (None: it may be either).
FORWARDERS: dict[str, tuple[str, bool | None]] = {
    "ssh": ("an SSH forward", True),
    "sshd": ("an SSH forward", True),
    "sshd-session": ("an SSH forward", True),
    "autossh": ("an SSH forward", True),
    "kubectl": ("a kubectl port-forward", True),
    "docker-proxy": ("a published container port", False),
    "rootlessport": ("a published container port", False),
    "gvproxy": ("a container machine's port", False),
    "wslrelay": ("a WSL port", False),
    "socat": ("a socat relay", None),
}

RESOLVE_S = 2.0


class NetworkPath(msgspec.Struct, frozen=True, kw_only=True):
    """How the server is reached. `kind`: "loopback", "this machine", "private network", "public", "forwarded" or "unknown".

    `elsewhere`: is the server on another machine than this one? None when that can't be told. `round_trip_ms`: median time
    of a TCP connect. `listener`: name of the process that listens, where this user may see it. No host is kept here.
    """

    kind: str
    sentence: str
    source: str
    elsewhere: bool | None
    port: int | None = None
    listener: str = ""
    server_pid: int | None = None
    round_trip_ms: float | None = None


def host_and_port(base_url: str) -> tuple[str, int]:
    """Host and port of a URL, the scheme's port when none is given. Raises ValueError, without quoting the URL."""
    parts = urlsplit(base_url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("the base URL's port is not a number from 0 to 65535") from None
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError("the base URL must look like http://HOST:PORT/v1")
    return host, port if port is not None else 443 if parts.scheme == "https" else 80


def addresses(host: str, wait_s: float = RESOLVE_S) -> list[Address]:
    """The IP addresses of a host name or literal; empty when it can't be resolved within `wait_s` seconds."""
    with suppress(ValueError):
        return [_plain(ipaddress.ip_address(host.strip("[]")))]
    found: list[Address] = []

    def resolve() -> None:
        with suppress(OSError, UnicodeError, ValueError):
            for *_, place in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
                found.append(_plain(ipaddress.ip_address(place[0])))

    # The resolver of the C library has no time limit of its own.
    thread = threading.Thread(target=resolve, name="resolve", daemon=True)
    thread.start()
    thread.join(wait_s)
    return list(dict.fromkeys(found)) if not thread.is_alive() else []


def _plain(address: Address) -> Address:
    """Without a scope id, and an IPv4 address that is wrapped in IPv6 as itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        return ipaddress.IPv6Address(int(address))
    return address


def is_this_machine(host: str) -> bool:
    """Do all addresses of the host belong to this machine (loopback, unspecified, or one of its interfaces)?"""
    return _all_here(addresses(host))


def is_private(host: str) -> bool:
    """Do all addresses of the host lie in this machine or a private network? False when the name can't be resolved: then
    nothing is known of where a request would go."""
    found = addresses(host)
    return bool(found) and all(_in_private(address) for address in found)


def _in_private(address: Address) -> bool:
    return _is_local(address) or any(address in network for network in PRIVATE if network.version == address.version)


def _all_here(found: list[Address]) -> bool:
    if not found:
        return False
    if all(_is_local(address) for address in found):
        return True
    own = _own_addresses()
    return all(_is_local(address) or address in own for address in found)


def _is_local(address: Address) -> bool:
    return address.is_loopback or address.is_unspecified


def _own_addresses() -> set[Address]:
    import psutil

    found: set[Address] = set()
    for entries in psutil.net_if_addrs().values():
        for entry in entries:
            with suppress(ValueError):
                found.add(_plain(ipaddress.ip_address(entry.address)))
    return found


def round_trip_ms(host: str, port: int, tries: int = 5, budget_s: float = 0.25, timeout_s: float = 1.0) -> float | None:
    """Median time of a TCP connect in milliseconds: `tries` times, fewer when `budget_s` runs out; None when the server does
    not accept. Nothing is sent."""
    taken: list[float] = []
    began = time.perf_counter()
    while len(taken) < tries and (not taken or time.perf_counter() - began < budget_s):
        start = time.perf_counter_ns()
        try:
            with socket.create_connection((host.strip("[]"), port), timeout=timeout_s):
                taken.append((time.perf_counter_ns() - start) / 1e6)
        except OSError:
            break
    return round(statistics.median(taken), 3) if taken else None


def network_path(base_url: str, measure: bool = True, files: Files = HERE) -> NetworkPath:
    """How a server is reached; with `measure` its port is connected to (nothing is sent) for the round-trip time.

    Raises ValueError when the URL is no HTTP URL.
    """
    host, port = host_and_port(base_url)
    found = addresses(host)
    trip = round_trip_ms(host, port) if measure and found else None
    if not found:
        return NetworkPath(
            kind="unknown",
            sentence="The host's name can't be resolved.",
            source="getaddrinfo",
            elsewhere=None,
            port=port,
        )
    if not _all_here(found):
        private = all(_in_private(address) for address in found)
        return NetworkPath(
            kind="private network" if private else "public",
            sentence="The server is on another machine"
            + (", in a private network." if private else ", at a public address."),
            source="its address",
            elsewhere=True,
            port=port,
            round_trip_ms=trip,
        )
    pid = listener_pid(port, files)
    name = (process_name(pid, files) if pid is not None else None) or ""
    kind = "loopback" if all(_is_local(address) for address in found) else "this machine"
    forward = FORWARDERS.get(name.removesuffix(".exe"))
    if forward is not None:
        words, elsewhere = forward
        place = {True: " to another machine", False: " of this machine", None: ""}[elsewhere]
        return NetworkPath(
            kind="forwarded",
            sentence=f"The port is {words}{place} ({name} listens on it).",
            source="the listening process",
            elsewhere=elsewhere,
            port=port,
            listener=name,
            round_trip_ms=trip,
        )
    silent = "nothing answers on its port" if measure and trip is None else "who listens can't be seen by this user"
    seen = f" ({name} listens)" if name else f"; {silent}"
    return NetworkPath(
        kind=kind,
        sentence=f"The server's address is this machine's{seen}.",
        source="its address and the listening process" if name else "its address",
        elsewhere=False,
        port=port,
        listener=name,
        server_pid=pid,
        round_trip_ms=trip,
    )


def listener_pid(port: int, files: Files = HERE) -> int | None:
    """The process that listens on a TCP port of this machine; of several that share it, their parent. None when no one
    listens or this user may not see who."""
    owners = _owners_linux(port, files) if LINUX else _owners_psutil(port)
    if len(owners) <= 1:
        return next(iter(owners), None)
    table = scan(files)
    heads = [pid for pid in owners if pid in table.processes and table.processes[pid].parent not in owners]
    return min(heads or owners)


def server_pid(base_url: str, files: Files = HERE) -> int | None:
    """The server's own process when it is on this machine and not behind a forwarder; None when that can't be seen."""
    return network_path(base_url, measure=False, files=files).server_pid


def _owners_linux(port: int, files: Files) -> set[int]:
    """Match the inodes of listening sockets in /proc/net/tcp with the open files of all processes that may be read."""
    wanted: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (files.text(table) or "").splitlines()[1:]:
            fields = line.split()
            # Columns: sl, local address, remote address, state (0A is LISTEN), ..., the tenth is the inode.
            if len(fields) > 9 and fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                wanted.add(f"socket:[{fields[9]}]")
    if not wanted:
        return set()
    return {
        int(name)
        for name in files.names("/proc")
        if name.isdecimal()
        and any(files.link(f"/proc/{name}/fd/{handle}") in wanted for handle in files.names(f"/proc/{name}/fd"))
    }


def _owners_psutil(port: int) -> set[int]:
    """The same through psutil, process by process, as only one's own are open to an ordinary user. Not run on macOS."""
    import psutil

    owners = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            for connection in process.net_connections(kind="tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                    owners.add(process.pid)
    return owners
