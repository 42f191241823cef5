"""What a person asked for at the start: which server, which settings, where to save. The command line fills it in."""

from __future__ import annotations

from pathlib import Path

import msgspec

from workbench.domain.variables import Setting

SIMULATED = "simulated"
BUILT_IN = "built-in"


class BenchOptions(msgspec.Struct, kw_only=True):
    """Choices for a `Bench`. "" and None are "not said".

    `setting` holds the variables as given (engine, model and quant "" when not said); its `base_url` is the one given.
    `target` names a server of workbench.toml, or "built-in" or "simulated". `sessions` None: nothing is saved.
    `consent`: a target that is neither this machine nor a private network was agreed to. `declared`: the user's facts.
    `server_log`: the log of a server started elsewhere, followed during a run. `fingerprint`: ask for the servers'
    fingerprints and hash their weights file.
    """

    setting: Setting = Setting()
    target: str = ""
    sessions: Path | None = Path("sessions")
    ca_file: str = ""
    tokenizer: Path | None = None
    consent: bool = False
    command: str = ""
    declared: dict[str, str] = {}
    events: bool = False
    slots: int = 4
    server_log: Path | None = None
    fingerprint: bool = False
