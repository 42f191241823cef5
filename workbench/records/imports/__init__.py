"""Other tools' results read in as records: one file a format. What differs in definition is named in the record."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.domain.record import Record
from workbench.domain.variables import BadInput
from workbench.records.imports import aiperf, guidellm, llama_bench, llama_benchy, sglang_bench, vllm_bench
from workbench.records.imports.common import Result, documents, read_text, record_of

FORMATS: tuple[tuple[Callable[[list[Any]], bool], Callable[[list[Any]], Result]], ...] = tuple(
    (module.recognise, module.read)
    for module in (guidellm, llama_benchy, llama_bench, sglang_bench, vllm_bench, aiperf)
)
"""(is it one of these?, read it), in the order in which they are asked."""

KNOWN = "guidellm, vllm bench serve, AIPerf, GenAI-Perf, llama-bench, llama-benchy, SGLang bench_serving"


def import_file(path: Path) -> Record:
    """Another tool's result file as a record, its tool, version and hash under `extra["imported"]`.

    Raises BadInput, one line, when the file can't be read or is of no known format.
    """
    content = read_text(path)
    if path.suffix in (".yaml", ".yml"):
        raise BadInput(f"{path.name}: YAML isn't read; have the tool write JSON")
    found = documents(path.name, content)
    for recognise, read in FORMATS:
        if recognise(found):
            try:
                return record_of(read(found), hashlib.sha256(content).hexdigest())
            except BadInput as error:
                raise BadInput(f"{path.name}: {error}") from None
    raise BadInput(f"{path.name}: not a result file of {KNOWN} (as JSON)")
