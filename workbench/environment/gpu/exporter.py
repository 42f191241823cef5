"""GPUs of a server on another machine, through a DCGM exporter's metrics page whose URL the user gives.

Written from the exporter's documentation and default counters: not seen on hardware. Such a page is renewed every few
seconds (30 by default) whatever one asks, so it is fetched at most every two seconds, in a thread of its own.
"""

from __future__ import annotations

import http.client
import threading
import time
from urllib.parse import urlsplit

from workbench.domain.facts import Facts
from workbench.domain.text import one_line
from workbench.engines.metrics_text import Metrics, parse_metrics
from workbench.environment.gpu.base import THROTTLE, GpuDevice, GpuSample

EVERY_S = 2.0
STALE_S = 15.0
TIMEOUT_S = 2.0
LIMIT = 8 << 20

SOURCE = "DCGM exporter"
USED, FREE, RESERVED = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"
REASONS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")


class ExporterReader:
    """See `base.GpuReader`. `url` is the metrics page, such as http://HOST:9400/metrics; no redirect is followed.

    Raises ValueError when `url` is no HTTP URL. Processes are not told by an exporter.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the exporter's URL must look like http://HOST:9400/metrics")
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path or "/metrics"
        self._page = Metrics({})
        self._page_s = self._asked_s = float("-inf")
        self._fetching: threading.Thread | None = None
        self._known: dict[str, dict[str, str]] = {}
        self.why_none = ""
        self._fetch()

    def devices(self) -> list[GpuDevice]:
        found = []
        for index, (key, labels) in enumerate(self._known.items()):
            facts = Facts()
            facts.set("name", self._name(labels), SOURCE)
            facts.set("uuid", labels.get("UUID", ""), SOURCE)
            facts.set("index", index, SOURCE)
            total = self._total(key)
            facts.set(
                "memory_mib", None if total is None else round(total), SOURCE, f"add {USED} and {FREE} to its counters"
            )
            limit = self._value("DCGM_FI_DEV_POWER_MGMT_LIMIT", key)
            facts.set("power_limit_w", limit, SOURCE, "add DCGM_FI_DEV_POWER_MGMT_LIMIT to its counters")
            found.append(GpuDevice(key, self._name(labels), index, facts))
        return found

    def sample(self, processes: bool = True) -> list[GpuSample]:
        self._renew()
        age = time.monotonic() - self._page_s
        why = f"the exporter has not answered for {age:.0f} s" if age > STALE_S else ""
        return [self._sample(key, index, labels, why) for index, (key, labels) in enumerate(self._known.items())]

    def versions(self) -> Facts:
        facts = Facts()
        driver = next(
            (labels[name] for labels in self._known.values() if (name := "DCGM_FI_DRIVER_VERSION") in labels), ""
        )
        facts.set("driver", one_line(driver, 40), SOURCE, "run `nvidia-smi` on the server's machine")
        facts.set("cuda", None, "", "run `nvidia-smi` on the server's machine")
        return facts

    def _sample(self, key: str, index: int, labels: dict[str, str], lost_why: str) -> GpuSample:
        label = f"GPU {index} {self._name(labels)}"
        if not lost_why and not self._told(key):
            lost_why = "the exporter no longer names this GPU"
        if lost_why:
            return GpuSample(uuid=key, label=label, lost_why=lost_why)
        reasons = next((value for name in REASONS if (value := self._value(name, key)) is not None), 0)
        clock, memory_clock = self._value("DCGM_FI_DEV_SM_CLOCK", key), self._value("DCGM_FI_DEV_MEM_CLOCK", key)
        return GpuSample(
            uuid=key,
            label=label,
            memory_used_mib=self._value(USED, key),
            memory_total_mib=self._total(key),
            memory_source=SOURCE,
            utilisation_percent=self._value("DCGM_FI_DEV_GPU_UTIL", key),
            power_w=self._value("DCGM_FI_DEV_POWER_USAGE", key),
            temperature_c=self._value("DCGM_FI_DEV_GPU_TEMP", key),
            sm_clock_mhz=None if clock is None else round(clock),
            memory_clock_mhz=None if memory_clock is None else round(memory_clock),
            throttle=[name for bit, name in THROTTLE.items() if int(reasons) & bit],
        )

    def _renew(self) -> None:
        """Start a fetch when the last one is old enough; the sampler never waits for it."""
        running = self._fetching is not None and self._fetching.is_alive()
        if not running and time.monotonic() - self._asked_s >= EVERY_S:
            self._fetching = threading.Thread(target=self._fetch, name="exporter", daemon=True)
            self._fetching.start()

    def _fetch(self) -> None:
        self._asked_s = time.monotonic()
        connection = self._kind(self._host, self._port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", self._path, headers={"Accept": "text/plain"})
            answer = connection.getresponse()
            body = answer.read(LIMIT)
            if answer.status != 200:
                self.why_none = f"The GPU exporter answers HTTP {answer.status}."
                return
        except (OSError, http.client.HTTPException) as error:
            self.why_none = f"The GPU exporter does not answer ({type(error).__name__})."
            return
        finally:
            connection.close()
        page = parse_metrics(body.decode("utf-8", "replace"))
        for sample in page.samples(USED):
            self._known.setdefault(_key(sample.labels), sample.labels)
        self.why_none = "" if self._known else f"The GPU exporter's page has no {USED}: is it a DCGM exporter?"
        self._page, self._page_s = page, time.monotonic()

    def _value(self, name: str, key: str) -> float | None:
        return next((sample.value for sample in self._page.samples(name) if _key(sample.labels) == key), None)

    def _told(self, key: str) -> bool:
        return self._value(USED, key) is not None

    def _total(self, key: str) -> float | None:
        used, free = self._value(USED, key), self._value(FREE, key)
        return None if used is None or free is None else used + free + (self._value(RESERVED, key) or 0.0)

    @staticmethod
    def _name(labels: dict[str, str]) -> str:
        profile = labels.get("GPU_I_PROFILE", "")
        name = labels.get("modelName", "") or "NVIDIA GPU"
        return one_line(f"{name} MIG {profile}" if profile else name, 96)


def _key(labels: dict[str, str]) -> str:
    """The GPU's UUID; an instance of it adds its number, as the page names both by the GPU's UUID."""
    instance = labels.get("GPU_I_ID", "")
    uuid = labels.get("UUID", "") or f"gpu{labels.get('gpu', '')}"
    return one_line(f"{uuid}/{instance}" if instance else uuid, 120)
