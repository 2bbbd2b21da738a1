# SPDX-License-Identifier: Apache-2.0
"""Decode steps of serving programs for Ascend in GE mode: one graph each, with eager's tokens, and no cache copied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import npugraph
import torchair
from benchmarks.ascend_programs import PROGRAMS, BlocksOfGe, Decoder, LatentDecoder, Sizes, build, in_ge_mode
from benchmarks.model_case import ERROR_FACTORS, relative_error
from npugraph.__main__ import main
from npugraph.ge.fx.operator_parts import PARTS
from tests.python.device.compiled.test_ge_operators_of_ascend import models
from tests.python.ge.air_runner import BareRoot, arguments_of, read

__all__ = ["models"]  # a fixture

STEPS, STARTS = 64, (3, 9)
SIZES = Sizes(hidden=256, inner=192, places=4096)  # caches are larger than weights

_OF_ALL = {"Data", "RefData", "Const", "NetOutput", "IndexByTensor", "Unsqueeze", "Reshape", "Add", "MatMul"}
_OF_ATTENTION = {"RmsNorm", "AddRmsNorm", "RotaryMul", "Scatter", "SplitV", "FusedInferAttentionScore"}
_OF_EXPERTS = {"MoeGatingTopK", "MoeInitRoutingV3", "GroupedMatmul", "SwiGlu", "MoeFinalizeRoutingV2", "Cast"}
_OF_LATENT = {"RmsNorm", "AddRmsNorm", "MlaPrologV3", "Cmo", "FusedInferAttentionScore", "TransposeBatchMatMul"}
TYPES = {
    # Patterns of torchair make one operator of a norm and the quantisation or conversion behind it.
    "dense": {*_OF_ATTENTION, "DynamicQuant", "AddRmsNormDynamicQuant", "QuantBatchMatmulV3", "SwiGlu"},
    "mixture": {*_OF_ATTENTION, *_OF_EXPERTS, "AddRmsNormCast"},
    "latent": {*_OF_LATENT, *_OF_EXPERTS, "Identity"},  # a wait
}


class Said(NamedTuple):
    """Of all steps, [steps, batch, ...]."""

    tokens: torch.Tensor
    logits: torch.Tensor


@pytest.fixture(autouse=True)
def fresh() -> Any:
    npugraph.reset()
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def say(model: Decoder, step: Callable[..., Any], given: torch.Tensor | None = None) -> Said:
    """Each sequence goes on with its best token, or with those of ``given``."""
    lengths = torch.tensor(STARTS, device="npu")
    tokens, caches = torch.arange(len(STARTS), device="npu"), model.caches(len(STARTS), "npu")
    said = []
    for number in range(STEPS):
        logits = step(tokens, lengths, caches, *model.paging(lengths))
        best = logits.argmax(-1)
        said.append((best.cpu(), logits.cpu()))
        tokens, lengths = best if given is None else given[number].npu(), lengths + 1
    return Said(*map(torch.stack, zip(*said, strict=True)))


def teach(model: Decoder) -> torch.Tensor:
    """Gives the model a head with which it says a random text, which is returned. Each token is the best one by a
    margin, so that another rounding does not change it, and a fault does."""
    text = torch.randint(SIZES.vocabulary, (STEPS, len(STARTS)), generator=torch.Generator().manual_seed(0))
    model.head.data = torch.eye(SIZES.hidden, dtype=model.dtype, device="npu")
    states = say(model, model, text).logits.flatten(0, 1).double()
    wanted = torch.nn.functional.one_hot(text.flatten(), SIZES.vocabulary).double()
    model.head.data = (torch.linalg.pinv(states) @ wanted).to(model.dtype).npu()
    return text


def exact(model: Decoder, name: str) -> Decoder:
    """The model with its weights in float32."""
    copy = build(name, SIZES, torch.float32)
    copy.head.data = model.head.data.cpu().float()
    copy.load_state_dict(model.state_dict())
    return copy.npu()


@pytest.mark.feature("4.05", "4.06", "4.09", "4.11", "12e.1", "12e.7")
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_is_one_graph_with_the_tokens_of_eager_mode(name: str, models: list[Any]) -> None:
    model = build(name, SIZES, torch.bfloat16).npu()
    text = teach(model)
    expected, reference = say(model, model), say(*[exact(model, name)] * 2, text)
    if isinstance(model, LatentDecoder):
        model.blocks = BlocksOfGe()
    got = say(model, in_ge_mode(model))
    assert torch.equal(expected.tokens, text) and torch.equal(got.tokens, text)
    bound = ERROR_FACTORS["bfloat16"] * relative_error(expected.logits, reference.logits)
    assert relative_error(got.logits, reference.logits) <= bound
    (ir,) = models
    assert {op.type for op in ir.op} == TYPES[name] | _OF_ALL
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == 1
    assert {task.stream for task in artifact.tasks} == ({0, 1} if name == "latent" else {0})
    least = min(cache.nbytes for pair in model.caches(len(STARTS), "npu") for cache in pair)
    copied = [task.bytes_copied for task in artifact.tasks]
    of_host = artifact.memory["copied_bytes_per_replay"] - sum(copied)
    assert max(*copied, of_host) < least


@pytest.mark.feature("12e.8")
@pytest.mark.parametrize("name", ["dense", "mixture"])
def test_a_file_has_the_bits_of_the_process_without_torch(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its parts it is refused, and `python -m npugraph parts` repairs it."""
    model, root = build(name, Sizes(), torch.float16).npu(), BareRoot(tmp_path)

    def inputs() -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(0)
        caches = model.caches(2, "npu")
        for cache in [cache for pair in caches for cache in pair]:
            cache.copy_(torch.randn(cache.shape, generator=generator))
        return torch.arange(2).npu(), torch.tensor(STARTS).npu(), caches

    torchair.dynamo_export(*inputs(), model=model, export_path=str(root.files), export_name="m")
    want = in_ge_mode(model)(*inputs()).cpu().numpy()
    file = read(root.files / "m.air")
    given = pytree.tree_map(torch.Tensor.cpu, inputs())
    arguments = arguments_of(file, build(name, Sizes(), torch.float16), given, {})
    assert np.array_equal(root.run("m.air", arguments)[0], want)
    whole = [op for op in file.graph[0].op if PARTS in op.attr]
    for op in whole:
        del op.attr[PARTS]
    (root.files / "foreign.air").write_bytes(file.SerializeToString())
    types = "|".join({op.type for op in whole})
    with pytest.raises(AssertionError, match=rf"of type ({types}).*`python -m npugraph parts`"):
        root.run("foreign.air", arguments)
    assert main(["parts", str(root.files / "foreign.air"), str(root.files / "whole.air")]) == 0
    assert f"{len(whole)} operators have got their parts" in capsys.readouterr().out
    assert np.array_equal(root.run("whole.air", arguments)[0], want)
