# SPDX-License-Identifier: Apache-2.0
"""Users of a server of OpenAI's completions: python -m benchmarks.samples.serving_client URL LOAD.

LOAD is a file of JSON: for each user a list of bodies of requests, as ``serving_load`` makes them. The users begin
together, and each sends a request when its last one is answered. Prints a record, which ``serving_load.Record``
describes. Runs in the environment of a server, which has aiohttp.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

MOST_SECONDS = 3600  # for a request; one that takes longer has failed
Body = dict[str, Any]


async def main(url: str, load: str) -> None:
    users: list[list[Body]] = json.loads(Path(load).read_text())
    # A connection for each request: llama.cpp closes those of answers that streamed.
    connections = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=MOST_SECONDS)
    async with aiohttp.ClientSession(connector=connections, timeout=timeout) as session:
        start = time.perf_counter()
        answers = await asyncio.gather(*(send_all(session, url, bodies) for bodies in users))
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "answers": answers}))


async def send_all(session: aiohttp.ClientSession, url: str, bodies: list[Body]) -> list[dict[str, Any]]:
    return [await send(session, url, body) for body in bodies]


async def send(session: aiohttp.ClientSession, url: str, body: Body) -> dict[str, Any]:
    answer: dict[str, Any] = {"text": "", "tokens": 0, "arrivals": [], "ids": [], "top": [], "failure": None}
    start = time.perf_counter()
    try:
        async with session.post(f"{url}/v1/completions", json=body) as response:
            if response.status != 200:
                raise ValueError(f"status {response.status}: {await response.text()}")
            async for event in events(response):
                take(answer, event, time.perf_counter() - start)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        answer["failure"] = f"{type(error).__name__}: {error}"
    else:
        if answer["tokens"] != body["max_tokens"]:
            answer["failure"] = f"{answer['tokens']} tokens instead of {body['max_tokens']}"
    return answer


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    async for line in response.content:
        kind, _, data = line.decode().strip().partition(": ")
        if kind == "data" and data != "[DONE]":
            yield json.loads(data)


def take(answer: dict[str, Any], event: dict[str, Any], seconds: float) -> None:
    """Adds what ``event`` tells, which came ``seconds`` after the request."""
    if "error" in event:
        raise ValueError(str(event["error"]))
    if event.get("usage"):
        answer["tokens"] = event["usage"]["completion_tokens"]
    for choice in event.get("choices", ()):
        # The event that ends a stream may be one without a token. Some tokens have no text of their own.
        if choice.get("finish_reason") and not choice.get("text"):
            continue
        answer["arrivals"].append(seconds)
        answer["text"] += choice.get("text") or ""
        answer["ids"] += choice.get("token_ids") or ()
        answer["top"] += (choice.get("logprobs") or {}).get("top_logprobs") or ()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
