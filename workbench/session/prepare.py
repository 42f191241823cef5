"""The prompts of a plan, made final before a run: loaded, built to length, counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

from workbench.domain.plan import Plan, arm_settings
from workbench.domain.variables import BadInput
from workbench.session.job import PromptUse
from workbench.session.prompts import build_near_limit, load_prompt

Counter = Callable[[str], Awaitable[tuple[int | None, str]]]
"""Tokens of a text and what counted them; (None, "") where nothing can."""

MARGIN = 64
"""Tokens kept free of a near-limit prompt for the chat template and the unique prefix."""

CHARACTERS_A_TOKEN = 3.0
"""Where nothing can count: an English text's rough measure, on the safe side; the server's own count is shown after."""


async def prompts_for(
    plan: Plan, context: int | None, count: Counter, restored: dict[str, Any] | None = None
) -> dict[str, PromptUse]:
    """Every prompt that an arm of the plan sends, by name.

    `context`: the window of one request (tokens), for a near-limit prompt. `restored`: the record's prompts, by name,
    when a session is run again: their very text is used. Raises BadInput.
    """
    names = dict.fromkeys(name for setting in arm_settings(plan).values() for name in setting.prompt)
    room = max(setting.max_tokens for setting in arm_settings(plan).values())
    return {name: await _prompt(name, context, room, count, (restored or {}).get(name)) for name in names}


async def _prompt(
    name: str, context: int | None, room: int, count: Counter, stored: dict[str, Any] | None
) -> PromptUse:
    share = None
    if stored is not None and "text" in stored:
        text, file = str(stored["text"]), ""
        share = stored.get("share")
    else:
        prompt = load_prompt(name)
        text, file, share = prompt.text, prompt.file, prompt.share
        if share is not None:
            if context is None:
                raise BadInput(f"prompt {name} is built to a share of the context, which this server does not tell")
            text = await asyncio.to_thread(build_near_limit, prompt, context, _blocking(count), room + MARGIN)
    tokens, source = await count(text)
    return PromptUse(
        name=name,
        text=text,
        sha256=sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        file=file,
        share=share,
        tokens=tokens,
        token_source=source,
    )


def _blocking(count: Counter) -> Callable[[str], int]:
    """The counter for a thread; by the length of the text where the server can't count."""
    loop = asyncio.get_running_loop()

    def blocking(text: str) -> int:
        counted, _ = asyncio.run_coroutine_threadsafe(_counted(count, text), loop).result()
        return int(len(text) / CHARACTERS_A_TOKEN) + 1 if counted is None else counted

    return blocking


async def _counted(count: Counter, text: str) -> tuple[int | None, str]:
    return await count(text)
