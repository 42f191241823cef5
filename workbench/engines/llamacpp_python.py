"""llama-cpp-python's server, verified against captured bytes of the real one (tests/wire/llama-cpp-python).

Its `/openapi.json` (for the version) and `/extras/tokenize/count` are built from its documentation.
"""

from __future__ import annotations

import asyncio

from workbench.domain.facts import FROM_THE_NAME, Facts
from workbench.engines.base import Engine, Evidence, Probe, openai_models, path_of, table_of, text_of
from workbench.engines.http import Http
from workbench.engines.names import quant_in
from workbench.engines.process import LocalServer

HINTS = {
    "version": "run `pip show llama-cpp-python` where it was started",
    "digest": "the server has none: hash the GGUF file",
    "slots": "it works on one request at a time: a new one ends the one that runs",
    "context": "not served: look for --n_ctx where the server was started",
    "quant": "not served: look at the GGUF file's name, then --declare quant=...",
    "kv_cache_type": "not served: look for --type_k where the server was started",
    "flash_attention": "not served: look for --flash_attn where the server was started",
}


class LlamaCppPython(Engine):
    name = "llama-cpp-python"
    label = "llama-cpp-python's server"
    port = 8000
    ignore_eos = "ignored"
    command_marks = ("llama_cpp.server",)

    async def recognise(self, probe: Probe) -> Evidence | None:
        owner = await probe.owner()
        if owner == "me" and await probe.header("/v1/models", "openai-processing-ms"):
            return Evidence(3, "owned_by: me, and its openai-processing-ms header")
        if owner not in ("", "me"):
            return None
        title = text_of(table_of((await probe.table("/openapi.json")).get("info")).get("title")) or ""
        return Evidence(3, "the title in /openapi.json") if "llama.cpp Python API" in title else None

    async def facts(self, http: Http, model: str, local: LocalServer | None = None) -> Facts:
        table, described = await asyncio.gather(http.get_json("/v1/models"), http.get_json("/openapi.json"))
        facts = Facts()
        facts.set("engine", self.name, "GET /v1/models, owned_by and header")
        version = text_of(table_of(table_of(described).get("info")).get("version"))
        facts.set("version", version, "GET /openapi.json", HINTS["version"])
        if any(item.get("id") == model for item in openai_models(table_of(table))):
            facts.set("model", model, "GET /v1/models")
        if local is not None:
            path = local.option("model")
            self._started_with(facts, local, path)
        return self.finished(facts, model, local, HINTS)

    def _started_with(self, facts: Facts, local: LocalServer, path: str | None) -> None:
        facts.set("path", path_of(path), local.source)
        if path and path.endswith(".gguf"):
            facts.set("format", "gguf", FROM_THE_NAME)
            quant = quant_in(path)
            if quant:
                facts.set("quant", quant, FROM_THE_NAME)
        window = local.option("n_ctx")
        if window and window.isdecimal() and int(window) > 0:
            facts.set("context", int(window), local.source)
        facts.set("kv_cache_type", local.option("type_k"), local.source, HINTS["kv_cache_type"])
        facts.set("flash_attention", local.option("flash_attn"), local.source, HINTS["flash_attention"])

    async def tokenize(self, http: Http, model: str, text: str) -> int | None:
        # It adds the beginning-of-text token, if the model has one, to whatever it counts: the empty text is that alone.
        whole, empty = await asyncio.gather(
            http.post_json("/extras/tokenize/count", {"input": text}),
            http.post_json("/extras/tokenize/count", {"input": ""}),
        )
        count, added = table_of(whole).get("count"), table_of(empty).get("count")
        return count - added if isinstance(count, int) and isinstance(added, int) else None
