# SPDX-License-Identifier: Apache-2.0
"""What clients of ``python -m npugraph serve`` get. All tests share one server with two adapters."""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import adapters
import httpx
import openai
import pytest
from conftest import ROOT
from greedy import Reference
from processes import Server, run_command, serving

BASE = "smollm2"
# Seed and size of two adapters.
ADAPTERS = {"first": (1, 0.06), "second": (9, 0.08)}
PROMPT = "The capital of France is"
TOKENS = 8


@dataclass
class Served:
    server: Server
    references: dict[str, Reference]  # of each model

    @property
    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.server.root}/v1", api_key="none", max_retries=0)

    def complete(self, **arguments: object) -> openai.types.Completion:
        given = {"model": BASE, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0} | arguments
        return self.client.completions.create(**given)

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        page = httpx.get(f"{self.server.root}/metrics").raise_for_status().text
        return sum(float(line.split()[-1]) for line in page.splitlines() if re.match(rf"{name}[ {{]", line))


@pytest.fixture(scope="module")
def served(smollm2: str, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("adapters")
    references = {BASE: Reference(smollm2)}
    for name, (seed, size) in ADAPTERS.items():
        references[name] = copy.deepcopy(references[BASE])
        factors = adapters.weights(references[name].model, seed, size)
        adapters.write(factors, folder / name)
        adapters.merge(references[name].model, factors)
    # Graphs of vllm-ascend 0.14 take adapters for one number of tokens alone.
    eager = ["--enforce-eager"] if version("vllm").startswith("0.14.") else []
    options = [
        *eager,
        f"--served-model-name={BASE}",
        "--enable-lora",
        f"--max-loras={len(ADAPTERS)}",
        f"--max-lora-rank={adapters.RANK}",
        "--lora-modules",
        *(f"{name}={folder / name}" for name in ADAPTERS),
    ]
    with serving(smollm2, *options, environment=environment) as server:
        yield Served(server, references)


def test_each_model_gives_what_transformers_gives(served: Served) -> None:
    assert [model.id for model in served.client.models.list()] == [BASE, *ADAPTERS]
    texts = {name: served.complete(model=name).choices[0].text for name in served.references}
    assert len(set(texts.values())) == len(texts)
    for name, text in texts.items():
        served.references[name].check(PROMPT, text, TOKENS)


def test_streams_join_to_the_whole_answer(served: Served) -> None:
    chunks = list(served.complete(stream=True))
    assert len(chunks) > 1
    assert "".join(chunk.choices[0].text for chunk in chunks) == served.complete().choices[0].text

    question = {"model": BASE, "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 8, "temperature": 0}
    whole = served.client.chat.completions.create(**question).choices[0].message.content
    stream = served.client.chat.completions.create(**question, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == whole


def test_several_answers_and_logarithms_of_probabilities(served: Served) -> None:
    answer = served.complete(n=2, temperature=1, seed=3, logprobs=2)
    assert len(answer.choices) == 2
    assert answer.usage.completion_tokens == 2 * TOKENS
    for choice in answer.choices:
        assert len(choice.logprobs.token_logprobs) == TOKENS
        assert all(value <= 0 for value in choice.logprobs.token_logprobs)
        assert all(len(best) >= 2 for best in choice.logprobs.top_logprobs)


def test_a_seed_repeats_a_sampled_answer(served: Served) -> None:
    texts = [served.complete(temperature=1, seed=seed, max_tokens=16).choices[0].text for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


def test_a_shared_prefix_is_taken_from_the_cache(served: Served) -> None:
    prefix = "Once upon a time there was a small fox who lived in a wood. " * 20  # more than one block of 128 tokens
    asked, hits = (served.metric(f"vllm:prefix_cache_{name}_total") for name in ("queries", "hits"))
    first = served.complete(prompt=f"{prefix}The fox")
    assert served.metric("vllm:prefix_cache_hits_total") == hits
    again = served.complete(prompt=f"{prefix}The fox")
    assert served.metric("vllm:prefix_cache_hits_total") >= hits + 128
    assert served.metric("vllm:prefix_cache_queries_total") == asked + 2 * first.usage.prompt_tokens
    assert again.choices[0].text == first.choices[0].text


@pytest.mark.parametrize(
    ("form", "fits"),
    [
        ({"choice": ["positive", "negative"]}, "positive|negative"),
        ({"regex": r"[a-z]{3,8}@example\.(com|org)"}, r"[a-z]{3,8}@example\.(com|org)"),
    ],
)
def test_answers_keep_to_a_form(served: Served, form: dict[str, object], fits: str) -> None:
    answer = served.complete(prompt="Write: ", extra_body={"structured_outputs": form}, max_tokens=30)
    assert answer.choices[0].finish_reason == "stop"
    assert re.fullmatch(fits, answer.choices[0].text)


def test_the_example_of_a_client(served: Served) -> None:
    script = ROOT / "examples" / "serving" / "client.py"
    done = run_command(sys.executable, script, "--url", f"{served.server.root}/v1", "--model", BASE, "Hello!")
    *answer, last = done.stdout.splitlines()
    assert "".join(answer).strip()
    assert set(json.loads(last)) == {"city", "country"}


def test_the_chat_of_the_command_line(served: Served) -> None:
    vllm = Path(sys.executable).with_name("vllm")
    command = [vllm, "complete", "--url", f"{served.server.root}/v1", "--model-name", BASE, "--quick", PROMPT]
    assert run_command(*command, f"--max-tokens={TOKENS}").stdout.strip()


def test_a_page_from_a_file_may_ask(served: Served) -> None:
    """examples/serving/chat.html is opened as a file, so its origin is "null"."""
    headers = {
        "Origin": "null",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    allowed = httpx.options(f"{served.server.root}/v1/chat/completions", headers=headers)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] in ("*", "null")


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"model": BASE, "prompt": "word " * 600, "max_tokens": 1}, 400, "maximum context length"),
        ({"model": BASE, "prompt": PROMPT, "max_tokens": 1000}, 400, "512"),
        ({"model": "another", "prompt": PROMPT}, 404, "`another` does not exist"),
        ({"model": BASE, "prompt": PROMPT, "temperature": "hot"}, 400, "temperature"),
        ({"model": BASE, "prompt": PROMPT, "structured_outputs": {"regex": "("}}, 400, "regex"),
        ('{"model":', 400, "JSON"),
    ],
)
def test_a_refused_request_says_why_and_harms_nothing(served: Served, body: object, status: int, says: str) -> None:
    content = body if isinstance(body, str) else json.dumps(body)
    headers = {"Content-Type": "application/json"}
    answer = httpx.post(f"{served.server.root}/v1/completions", content=content, headers=headers, timeout=60)
    assert answer.status_code == status, answer.text
    assert says in answer.json()["error"]["message"]
    assert served.complete(max_tokens=1).choices[0].text


def test_a_client_that_goes_away_leaves_nothing_running(served: Served) -> None:
    before = served.metric("vllm:generation_tokens_total")
    for _ in range(2):
        with served.complete(stream=True, max_tokens=480, extra_body={"ignore_eos": True}) as stream:
            next(iter(stream))
    while served.metric("vllm:num_requests_running") > 0:
        pass  # the engine hears of it with its next step
    assert served.metric("vllm:generation_tokens_total") < before + 2 * 480
    served.references[BASE].check(PROMPT, served.complete().choices[0].text, TOKENS)
