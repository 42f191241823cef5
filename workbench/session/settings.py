"""`workbench.toml`: targets with their keys' whereabouts and declared facts, limits, and the screen's theme and keys.

Looked for in the working directory, else in the user's configuration directory. It never holds a key: `key_env` names
the environment variable, `key_file` the file, that does.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import msgspec

from workbench.domain.plan import LIMITS
from workbench.domain.variables import BadInput

FILE = "workbench.toml"
SIZE_LIMIT = 1024 * 1024


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[targets.NAME]`."""

    url: str
    model: str = ""
    engine: str = ""
    quant: str = ""
    key_env: str = ""
    key_file: str = ""
    ca_file: str = ""
    facts: dict[str, str | int | float | bool] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. `keys` remaps bindings by id; `limits` are those of `--limit`."""

    targets: dict[str, TargetSettings] = {}
    limits: dict[str, float] = {}
    theme: str = ""
    keys: dict[str, str] = {}


def settings_file() -> Path | None:
    """The settings file in use, or None."""
    import platformdirs

    for path in (Path(FILE), Path(platformdirs.user_config_dir("workbench")) / FILE):
        if path.is_file():
            return path
    return None


def load_settings(path: Path | None = None) -> Settings:
    """Read the settings; defaults when there is no file. Raises BadInput with one line: what, where, how to mend it."""
    found = path or settings_file()
    if found is None:
        return Settings()
    try:
        if found.stat().st_size > SIZE_LIMIT:
            raise BadInput(f"{found}: larger than a settings file can be ({SIZE_LIMIT // 1024} KiB)")
        settings = msgspec.convert(tomllib.loads(found.read_text(encoding="utf-8")), Settings)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{found}: not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise BadInput(f"{found}: {error}") from None
    except OSError as error:
        raise BadInput(f"{found}: can't be read: {error.strerror}") from None
    for name in settings.limits:
        if name not in LIMITS:
            raise BadInput(f"{found}: no such limit: {name}; it is one of {', '.join(LIMITS)}")
    return settings


def read_key(key_env: str, key_file: str) -> str:
    """The key an environment variable or a file holds; "" when neither is named. Raises BadInput."""
    if key_env:
        key = os.environ.get(key_env, "").strip()
        if not key:
            raise BadInput(f"the key's environment variable {key_env} is not set")
        return key
    if key_file:
        path = Path(key_file).expanduser()
        try:
            return path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"the key file {key_file} can't be read: {error}") from None
    return ""
