# SPDX-License-Identifier: Apache-2.0
"""The examples that use vLLM without a server give what transformers gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from conftest import ROOT
from greedy import Reference
from processes import printed
from transformers import AutoModel, AutoTokenizer

PROMPTS = ["The capital of France is", "The opposite of hot is", "The first president of the United States was"]
LINES = [
    "The cat sits on the mat.",
    "A kitten rests on a rug.",
    "Stock markets fell sharply today.",
    "Shares dropped this morning.",
]


def example(name: str, *arguments: object, environment: dict[str, str]) -> list[dict[str, Any]]:
    """The lines of JSON that an example prints."""
    return printed(ROOT / "examples" / "serving" / name, *arguments, environment=environment)


def test_offline_batch(smollm2: str, environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    file.write_text("\n".join(PROMPTS))
    printed = example("offline_batch.py", smollm2, file, "--length", "12", environment=environment)
    assert [line["prompt"] for line in printed] == PROMPTS
    reference = Reference(smollm2)
    for line in printed:
        reference.check(line["prompt"], line["text"], 12)


def test_embedding(minilm: str, environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("\n".join(LINES))
    printed = example("embedding.py", minilm, file, environment=environment)
    assert [line["most_like"] for line in printed] == [LINES[i] for i in (1, 0, 3, 2)]

    tokenizer, model = AutoTokenizer.from_pretrained(minilm), AutoModel.from_pretrained(minilm, dtype=torch.float32)
    for text, line in zip(LINES, printed, strict=True):
        with torch.no_grad():
            tokens = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        expected = torch.nn.functional.normalize(tokens.mean(0), dim=0)
        torch.testing.assert_close(torch.tensor(line["embedding"]), expected, rtol=1e-4, atol=1e-5)
