"""The instrument's own figures for every record: the last calibration on this machine, made once when there is none."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from workbench import __version__
from workbench.engines.weights import cache_dir
from workbench.session.calibrate import Added, calibrate
from workbench.session.workers import WorkerTrouble

FILE = "calibration.json"
GOOD_FOR = timedelta(days=30)
QUICK = (1, 16)


def keep(results: list[Added]) -> None:
    """Keep a calibration for the records to come; a folder that can't be written loses nothing but that."""
    content = {
        "workbench": __version__,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "steps": [item.table() for item in results],
    }
    path = cache_dir() / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        return


def kept() -> dict[str, Any]:
    """The last calibration of this version on this machine, as the record's `[environment.client]`; {} when none is
    there, or it is too old."""
    try:
        content = json.loads((cache_dir() / FILE).read_text(encoding="utf-8"))
        at = datetime.fromisoformat(content["at"])
        steps = content["steps"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    if content.get("workbench") != __version__ or datetime.now(UTC) - at > GOOD_FOR or not isinstance(steps, list):
        return {}
    return {"calibrated": content["at"], "calibration": steps}


async def instrument(log: Path) -> dict[str, Any]:
    """The calibration to put into a record: the kept one, else a quick one made now (about 7 s) and kept."""
    found = kept()
    if not found:
        try:
            keep(await calibrate(log, QUICK))
        except (WorkerTrouble, RuntimeError, OSError) as trouble:
            return {"not_calibrated": str(trouble)}
        found = kept()
    return found
