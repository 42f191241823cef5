"""Captured replies of real servers (`curl -i -N` output), read into status, headers and body."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent


class Capture(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def read(engine: str, name: str) -> Capture:
    """One capture. Lines that begin with # before and after the reply are the capture's own notes."""
    data = (FOLDER / engine / f"{name}.txt").read_bytes()
    while data.startswith(b"#"):
        data = data.split(b"\n", 1)[1]
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower().strip(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    note = body.rfind(b"\n#curl:")
    return Capture(int(lines[0].split()[1]), headers, body if note < 0 else body[: note + 1])
