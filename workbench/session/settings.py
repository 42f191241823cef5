"""`workbench.toml`: targets with their keys' whereabouts and declared facts, limits, and the screen's theme and keys.

Looked for in the working directory, else in the user's configuration directory. It never holds a key: `key_env` names
the environment variable, `key_file` the file, that does.
"""

from __future__ import annotations

import math
import os
import tomllib
from pathlib import Path

import msgspec

from workbench.domain.plan import LIMITS, Positive
from workbench.domain.text import one_line
from workbench.domain.variables import BadInput
from workbench.session.launch_profile import LaunchSettings, check

FILE = "workbench.toml"
SIZE_LIMIT = 1024 * 1024


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[targets.NAME]`. `launch`: how its server is started when it isn't running."""

    url: str
    model: str = ""
    engine: str = ""
    quant: str = ""
    key_env: str = ""
    key_file: str = ""
    ca_file: str = ""
    facts: dict[str, str | int | float | bool] = {}
    launch: LaunchSettings | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. `keys` remaps bindings by id; `limits` are those of `--limit`."""

    targets: dict[str, TargetSettings] = {}
    limits: dict[str, Positive] = {}
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
    name = one_line(str(found))
    try:
        if found.stat().st_size > SIZE_LIMIT:
            raise BadInput(f"{name}: larger than a settings file can be ({SIZE_LIMIT // 1024} KiB)")
        settings = msgspec.convert(tomllib.loads(found.read_text(encoding="utf-8")), Settings)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{name}: not TOML: {error}") from None
    except RecursionError:
        raise BadInput(f"{name}: nested too deeply for a settings file") from None
    except msgspec.ValidationError as error:
        raise BadInput(f"{name}: {one_line(str(error))}") from None
    except OSError as error:
        raise BadInput(f"{name}: can't be read: {error.strerror}") from None
    for target, item in settings.targets.items():
        try:
            if item.launch is not None:
                check(item.launch, item.model, item.quant)
        except BadInput as error:
            raise BadInput(f"{name}: targets.{one_line(target, 60)}.launch: {error}") from None
    for limit, bound in settings.limits.items():
        if limit not in LIMITS:
            raise BadInput(f"{name}: no such limit: {one_line(limit)}; it is one of {', '.join(LIMITS)}")
        if bound == math.inf:
            raise BadInput(f"{name}: limit {limit}: inf limits nothing: leave it out")
    return settings


def read_key(key_env: str, key_file: str) -> str:
    """The key an environment variable or a file holds; "" when neither is named.

    Raises BadInput, which never shows the key, when there is none or it could not stand in a header.
    """
    if key_env:
        key, place = os.environ.get(key_env, "").strip(), f"environment variable {one_line(key_env)}"
        if not key:
            raise BadInput(f"the key's {place} is not set")
    elif key_file:
        place = f"file {one_line(key_file)}"
        try:
            key = Path(key_file).expanduser().read_text(encoding="utf-8").strip()
        except OSError as error:
            raise BadInput(f"the key {place} can't be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadInput(f"the key {place} can't be read: it is no text") from None
        except (RuntimeError, ValueError) as error:
            raise BadInput(f"the key {place} can't be read: {one_line(str(error))}") from None
        if not key:
            raise BadInput(f"the key {place} is empty")
    else:
        return ""
    if not all("!" <= character <= "~" for character in key):
        raise BadInput(f"the key in {place} must be one word of plain ASCII: no header can hold what is there")
    return key
