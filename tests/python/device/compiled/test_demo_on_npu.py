# SPDX-License-Identifier: Apache-2.0
"""The demo with ``--device npu`` gives the answer of cpu: in eager mode, and in `make long` compiled."""

from __future__ import annotations

import pytest
import torch

from npugraph.demo import __main__ as demo
from npugraph.demo import packages
from npugraph.demo.terminal import Progress

COMMAND = ["What is the capital of France?", "--tokens", "7"]
ANSWER = "The capital of France is Paris."


def loaded(*more: str) -> demo.Chat:
    arguments = demo.parse_arguments([*COMMAND, *more])
    return demo.Chat(arguments, packages.find_backend(arguments.backend), Progress(stages=2))


@pytest.fixture(scope="module")
def tokens() -> list[int]:
    """Returns the tokens of the answer in eager mode on cpu."""
    chat = loaded()
    with torch.no_grad():
        return chat.answer(chat.model).tokens


def test_eager_tokens_on_npu_are_those_of_cpu(tokens: list[int]) -> None:
    chat = loaded("--device", "npu")
    assert chat.prompt.is_npu and all(parameter.is_npu for parameter in chat.model.parameters())
    with torch.no_grad():
        assert chat.answer(chat.model).tokens == tokens
    assert chat.tokenizer.decode(tokens) == ANSWER


@pytest.mark.long
def test_compiled_tokens_on_npu_are_those_of_cpu(
    tokens: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch._dynamo.reset()
    answers = []

    class Chat(demo.Chat):
        def answer(self, *arguments: object) -> object:
            answers.append(super().answer(*arguments))
            return answers[-1]

    monkeypatch.setattr(demo, "Chat", Chat)
    assert demo.main([*COMMAND, "--device", "npu"]) == 0
    said = capsys.readouterr().out
    assert ANSWER in said and f"yes, all {len(tokens)}" in said
    assert [answer.tokens for answer in answers] == [tokens]  # the answer that was shown
