"""The openai SDK's typed stream, as most scripts use it: STREAMS at once, REQUESTS in all. Prints a JSON line of figures.

python benchmarks/sdk_typed_stream.py BASE_URL STREAMS REQUESTS TOKENS
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from time import perf_counter

from openai import AsyncOpenAI


async def main(base_url: str, streams: int, requests: int, tokens: int) -> None:
    client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
    gate = asyncio.Semaphore(streams)
    chunks = 0
    ttft: list[float] = []

    async def one(number: int) -> None:
        nonlocal chunks
        async with gate:
            began = perf_counter()
            stream = await client.chat.completions.create(
                model="simulated",
                messages=[{"role": "user", "content": f"{number} Say something."}],
                max_tokens=tokens,
                stream=True,
            )
            first = True
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    chunks += 1
                    if first:
                        ttft.append((perf_counter() - began) * 1000)
                        first = False

    began = perf_counter()
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.gather(*(one(number) for number in range(requests)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
    result = {"chunks": chunks, "cpu_s": used, "wall_s": perf_counter() - began, "ttft_mean_ms": sum(ttft) / len(ttft)}
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *(int(word) for word in sys.argv[2:5])))
