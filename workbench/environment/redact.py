"""Make a command line fit for a record: no keys, tokens, passwords, URL user info or query, no home directory or user name.

A redaction too many costs a flag; one too few leaks a key. So in doubt the value goes.
"""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

GONE = "<redacted>"

SECRET_WORDS = frozenset(
    {
        "key",
        "keys",
        "apikey",
        "apikeys",
        "token",
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "pass",
        "pwd",
    }
    | {"auth", "authorization", "credential", "credentials", "cookie", "cookies", "bearer", "authtoken", "accesstoken"}
)
# A value of these options says where a secret lies, not the secret.
WHERE_WORDS = frozenset({"file", "path", "dir", "env"})

_NAME = r"[A-Za-z0-9][\w.-]*"
_SPLIT = re.compile(r"[-_.]|(?<=[a-z])(?=[A-Z])")
_OPTION = re.compile(rf"(--?)({_NAME})(?:(=)(.*))?", re.DOTALL)
_ASSIGNMENT = re.compile(rf"({_NAME})=(.*)", re.DOTALL)
_HEADER = re.compile(
    r"(?i)\b([\w-]*(?:authorization|api-?key|token|secret|cookie|password))\s*:\s*(?!//)\S.*", re.DOTALL
)
_QUOTED = re.compile(
    r"(?i)([\"']?[\w-]*(?:api[_-]?keys?|token|secrets?|passw(?:or)?d|authorization|credentials?)[\"']?\s*[:=]\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;}\]]+)"
)
_IN_TEXT = re.compile(rf"(--?)({_NAME})(=|\s+)(\"[^\"]*\"|'[^']*'|[^\s\"']+)")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#]*@")
_QUERY = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^\s?#\"']*)[?#][^\s\"']*")
_SHAPES = re.compile(
    r"\b(?:sk-[\w-]{8,}|hf_\w{8,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|nvapi-[\w-]{8,}|xox[abprs]-[\w-]{8,}|gsk_\w{8,}"
    r"|glpat-[\w-]{8,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)"
)
_HOME = re.compile(r"(?<![\w~])(?:/[\w.-]+)*/(?:home|Users)/[^/\s:;,'\"]+|(?<![\w~])/root(?![\w.-])")
_WINDOWS_HOME = re.compile(r"(?i)\b[a-z]:\\+users\\+[^\\\s:;,'\"]+")


def is_secret_name(name: str) -> bool:
    """Does an option's or variable's name promise a secret? `--api-key` does, `--tokenizer` and `--api-key-file` do not."""
    words = [word.lower() for word in _SPLIT.split(name.strip("-")) if word]
    return bool(words) and words[-1] not in WHERE_WORDS and not SECRET_WORDS.isdisjoint(words)


def redact_command(arguments: Sequence[str], users: Iterable[str] = ()) -> str:
    """One line, quoted for a shell, of a command's arguments without its secrets; `users` are login names to hide."""
    if len(arguments) == 1 and any(space in arguments[0] for space in " \t\x00"):
        # A process that set its own title holds its whole command line in one string.
        arguments = arguments[0].replace("\x00", " ").split()
    kept: list[str] = []
    hiding = False
    for argument in arguments:
        option = _OPTION.fullmatch(argument)
        if option:
            _, name, equals, value = option.groups()
            secret = is_secret_name(name)
            if equals:
                kept.append(f"{argument[: argument.index('=')]}={GONE if secret else redact_text(value, users)}")
            else:
                kept.append(argument)
            # An option may take several keys; all words up to the next option go.
            hiding = secret and not equals
        elif hiding:
            if kept[-1] != GONE:
                kept.append(GONE)
        else:
            assignment = _ASSIGNMENT.fullmatch(argument)
            if assignment and is_secret_name(assignment.group(1)):
                kept.append(f"{assignment.group(1)}={GONE}")
            else:
                kept.append(redact_text(argument, users))
    return " ".join(map(_quoted, kept))


def _quoted(argument: str) -> str:
    """Quoted for a shell where the text itself needs it: our own `<redacted>` and `~` do not."""
    own = argument.replace(GONE, "x").replace("~", "x")
    return argument if argument and shlex.quote(own) == own else shlex.quote(argument)


def redact_text(text: str, users: Iterable[str] = ()) -> str:
    """Free text (an argument, a log line, an error) without what looks like a secret, a URL's user info or query, a home
    directory, or a path part that is one of `users` or the login name."""

    def option(match: re.Match[str]) -> str:
        dashes, name, between, _ = match.groups()
        return f"{dashes}{name}{between}{GONE}" if is_secret_name(name) else match.group()

    text = _USERINFO.sub(r"\1", text)
    text = _QUERY.sub(r"\1", text)
    if any(space in text for space in " \t\n"):
        text = _IN_TEXT.sub(option, text)
    text = _HEADER.sub(rf"\1: {GONE}", text)
    text = _QUOTED.sub(rf"\1{GONE}", text)
    text = _BEARER.sub(rf"\1 {GONE}", text)
    text = _SHAPES.sub(GONE, text)
    return hide_home(text, users)


def hide_home(text: str, users: Iterable[str] = ()) -> str:
    """The text with every home directory as `~`, and login names that are a whole part of a path as `<user>`."""
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(re.escape(home) + r"(?![\w.-])", "~", text)
    text = _WINDOWS_HOME.sub("~", _HOME.sub("~", text))
    for user in {*users, _login()} - {"", "root"}:
        text = re.sub(rf"(?<=[/\\]){re.escape(user)}(?=[/\\:\s'\"]|$)", "<user>", text)
    return text


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
