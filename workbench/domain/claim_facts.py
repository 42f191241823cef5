"""What a reader needs to know of a claimed speed-up, and what each fact, left out, could hide.

Sizes of effect are known from two places only: the article whose method this program follows ("article"), and
measurements made with this program's own parts on a 2-core machine without a GPU ("measured here"). Where neither has
one, none is given.
"""

from __future__ import annotations

import msgspec

ARTICLE = "the method article"
MEASURED = "measured here on a 2-core machine without a GPU"


class Hidden(msgspec.Struct, frozen=True, kw_only=True):
    """What a missing fact could hide. `times`: the largest factor known for it, None where no size is known."""

    what: str
    size: str = ""
    times: float | None = None
    source: str = ""


class ClaimFact(msgspec.Struct, frozen=True, kw_only=True):
    """One fact: its key, its name, other keys it may be given under, the question that asks for it, what it could hide."""

    key: str
    name: str
    also: tuple[str, ...] = ()
    question: str
    hides: tuple[Hidden, ...]


FACTS: tuple[ClaimFact, ...] = (
    ClaimFact(
        key="model",
        name="model and version",
        also=("model_version", "version", "model_name"),
        question="Which model and version, before and after? Is it the same file, a fine-tune, or a smaller distilled one?",
        hides=(Hidden(what="another, smaller or distilled model: quality traded for speed"),),
    ),
    ClaimFact(
        key="precision",
        name="weights and precision",
        also=("quant", "quantization", "weights", "format", "dtype"),
        question="Which weights, in which format and quantization (FP16, FP8, INT8, Q4, ...), on each side?",
        hides=(
            Hidden(
                what="a coarser quantization on the new side: accuracy traded for speed",
                size="close to 2x, FP16 to INT4",
                times=2.0,
                source=ARTICLE,
            ),
            Hidden(
                what="the same, on one small model",
                size="1.8x decode (43 to 76 tokens/s), F16 to Q8_0, SmolLM2-135M on llama.cpp",
                times=76 / 43,
                source=MEASURED,
            ),
        ),
    ),
    ClaimFact(
        key="engine",
        name="engine and version",
        also=("engine_version", "server", "software", "backend"),
        question="Which engine and version with which flags, driver and CUDA, on each side?",
        hides=(
            Hidden(
                what="another engine or version; which of two is ahead depends on the metric",
                size="TTFT 0.09-0.16 s with one engine, 0.7-0.9 s with another, whose decode was 3x faster "
                "(unlike quantizations)",
                times=10.0,
                source=MEASURED,
            ),
        ),
    ),
    ClaimFact(
        key="hardware",
        name="hardware",
        also=("gpu", "device", "machine", "cpu"),
        question="Which GPU, how many, how much memory, shared or not, and on which CPU and memory? The same on both sides?",
        hides=(
            Hidden(what="another device", size="over 10x, CPU to GPU, one 7B model", times=10.0, source=ARTICLE),
            Hidden(
                what="a neighbour on a shared GPU during the slow run",
                size="8 s, then 20 s",
                times=2.5,
                source=ARTICLE,
            ),
        ),
    ),
    ClaimFact(
        key="prompt_tokens",
        name="prompt tokens",
        also=("input_tokens", "prompt", "prompt_length", "isl", "context"),
        question="Which prompts, and how many tokens are they by each side's own tokenizer?",
        hides=(
            Hidden(
                what="short prompts that measure start-up, network and scheduling instead of prefill",
            ),
            Hidden(
                what="a tokenizer that splits the same text into more tokens",
                size="500 against 800 tokens for one text",
                times=1.6,
                source=ARTICLE,
            ),
        ),
    ),
    ClaimFact(
        key="output_tokens",
        name="output tokens",
        also=("completion_tokens", "max_tokens", "output_length", "osl"),
        question="How many tokens did each side generate, with which max_tokens and stop words?",
        hides=(
            Hidden(
                what="shorter replies taken for speed",
                size="without max_tokens the time readily doubles",
                times=2.0,
                source=ARTICLE,
            ),
        ),
    ),
    ClaimFact(
        key="concurrency",
        name="concurrency",
        also=("parallel", "clients", "users", "streams", "rate"),
        question="How many requests were in flight at once, on each side?",
        hides=(
            Hidden(
                what="throughput of many requests, told as the speed of one",
                size="10 to 140 requests/s with no single request faster",
                times=14.0,
                source=ARTICLE,
            ),
            Hidden(
                what="the same, at 4 streams against 1",
                size="4.8x (18 to 86 tokens/s) on vLLM, 1.3x (33 to 44) on llama.cpp",
                times=86 / 18,
                source=MEASURED,
            ),
        ),
    ),
    ClaimFact(
        key="batch",
        name="batch",
        also=("batch_size", "batching", "slots", "max_num_seqs"),
        question="How did each side batch (continuous, fixed, none), and with how many slots?",
        hides=(Hidden(what="one read of the weights shared by a whole batch: more throughput, no faster request"),),
    ),
    ClaimFact(
        key="streaming",
        name="streaming",
        also=("stream", "streamed", "ttft_definition"),
        question="Were replies streamed, and what stopped the clock of the first token?",
        hides=(
            Hidden(
                what="a TTFT that stops at an empty chunk instead of the first text",
                size="41-53 ms reported by one tool where 100 ms is true",
                times=100 / 41,
                source=MEASURED,
            ),
        ),
    ),
    ClaimFact(
        key="warm_up",
        name="warm-up",
        also=("warmup", "warm_up_requests", "cache"),
        question="How many warm-up requests were left out, and could repeated prompts hit the prefix cache?",
        hides=(
            Hidden(what="loading of the model counted on one side only"),
            Hidden(
                what="a prompt served from the prefix cache",
                size="one 1,200-token prompt twice: 5.9 s then 0.13 s on llama.cpp, 4.0 then 1.7 on vLLM",
                times=5.9 / 0.13,
                source=MEASURED,
            ),
        ),
    ),
    ClaimFact(
        key="sample_size",
        name="sample size",
        also=("samples", "requests", "runs", "n", "repeats", "rounds"),
        question="How many requests and how many repeats stand behind each figure?",
        hides=(Hidden(what="one lucky run: nothing is known of the spread between runs"),),
    ),
    ClaimFact(
        key="mean",
        name="mean",
        also=("average", "avg", "median", "p50"),
        question="Is the figure a mean, a median or the best run? Please give the mean of both sides.",
        hides=(
            Hidden(
                what="the best run told as the usual one",
                size="fastest 3 s, mean 5 s, slowest 15 s of one server",
                times=5.0,
                source=ARTICLE,
            ),
        ),
    ),
    ClaimFact(
        key="p95",
        name="P95",
        also=("p99", "tail", "max", "maximum"),
        question="What is the P95 of both sides?",
        hides=(Hidden(what="a tail that got worse", size="mean 5 s beside 15 s", times=3.0, source=ARTICLE),),
    ),
    ClaimFact(
        key="success_rate",
        name="success rate",
        also=("failures", "errors", "success"),
        question="How many requests failed on each side, and are they in the figures?",
        hides=(
            Hidden(
                what="the average of the survivors",
                size="90 of 100 failed, the other 10 were short and averaged 0.5 s",
                source=ARTICLE,
            ),
        ),
    ),
    ClaimFact(
        key="evidence",
        name="evidence",
        also=("script", "log", "raw_data", "repository", "link"),
        question="May I have the script, the environment's versions and the raw results?",
        hides=(Hidden(what="everything: without script, log or raw data it can't be checked"),),
    ),
)
"""In the order in which they are asked for."""

BY_KEY: dict[str, ClaimFact] = {name: fact for fact in FACTS for name in (fact.key, *fact.also)}
"""A fact by any key it may be given under."""
