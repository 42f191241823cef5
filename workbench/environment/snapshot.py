"""The environment of a session in one call: host, software, GPUs, way to the server, and whose machine that describes."""

from __future__ import annotations

import msgspec

from workbench.domain.facts import Facts
from workbench.environment.gpu import GpuDevice, GpuReader, find_gpus
from workbench.environment.host import host_facts
from workbench.environment.network import NetworkPath, network_path
from workbench.environment.software import software_facts

SERVER_HERE = "The server is on this machine."
SERVER_ELSEWHERE = "Host and GPU are of this machine, not the server."
SERVER_UNKNOWN = "Host and GPU are of this machine; whether the server is on it is not known."
NO_SERVER = "Host and GPU are of this machine; no server is named."


class EnvironmentSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one moment. `gpus` is the reader they were taken with, for the Sampler of the run that follows."""

    host: Facts
    software: Facts
    devices: list[GpuDevice]
    gpus: GpuReader
    scope: str
    network: NetworkPath | None = None
    server_pid: int | None = None

    @property
    def why_no_gpu(self) -> str:
        """One sentence when there is no GPU or one can't be read; "" when all is well."""
        return self.gpus.why_none

    @property
    def describes_server(self) -> bool:
        """May host and GPU figures be taken for the server's?"""
        return self.scope == SERVER_HERE

    def tables(self) -> dict[str, object]:
        """Plain values for the record: `host`, `software`, `network`, each with its `source` table, `gpu` (one table a
        device), `unknown` (dotted names), `how` (name -> how to learn it) and `scope`."""
        how = {f"host.{name}": text for name, text in self.host.unknown.items()}
        how |= {f"software.{name}": text for name, text in self.software.unknown.items()}
        for device in self.devices:
            place = f"gpu.{device.uuid or device.index}"
            how |= {f"{place}.{name}": text for name, text in device.facts.unknown.items()}
        if not self.devices:
            how["gpu"] = self.why_no_gpu
        network = self._network()
        how |= {f"network.{name}": text for name, text in network.unknown.items()}
        return {
            "scope": self.scope,
            "host": self.host.table(),
            "software": self.software.table(),
            "network": network.table(),
            "gpu": [device.facts.table() for device in self.devices],
            "unknown": list(how),
            "how": how,
        }

    def _network(self) -> Facts:
        facts = Facts()
        path = self.network
        if path is None:
            return facts
        facts.set("path", path.kind, path.source)
        facts.set("sentence", path.sentence, path.source)
        if path.listener:
            facts.set("listener", path.listener, "the listening process")
        facts.set(
            "round_trip_ms", path.round_trip_ms, "median TCP connect", "start the server: its port takes no connection"
        )
        return facts


def take(
    base_url: str | None, server_pid: int | None = None, gpus: GpuReader | None = None, measure: bool = True
) -> EnvironmentSnapshot:
    """Look at this machine and at the way to the server. Takes about a quarter of a second.

    With `measure` the server's port is connected to for the round-trip time, nothing is sent: leave it off before a
    public target has been confirmed. Raises ValueError when `base_url` is no HTTP URL.
    """
    path = network_path(base_url, measure) if base_url else None
    if server_pid is None and path is not None:
        server_pid = path.server_pid
    if path is None:
        scope = NO_SERVER if server_pid is None else SERVER_HERE
    else:
        scope = {True: SERVER_ELSEWHERE, False: SERVER_HERE, None: SERVER_UNKNOWN}[path.elsewhere]
    reader = gpus if gpus is not None else find_gpus()
    return EnvironmentSnapshot(
        host=host_facts(server_pid=server_pid),
        software=software_facts(reader),
        devices=reader.devices(),
        gpus=reader,
        scope=scope,
        network=path,
        server_pid=server_pid,
    )
