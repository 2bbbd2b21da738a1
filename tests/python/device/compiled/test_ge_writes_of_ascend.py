# SPDX-License-Identifier: Apache-2.0
"""Operators of Ascend that write arguments, in GE mode: one operator of Ascend IR, which writes the input of the graph
itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from hypothesis import HealthCheck, Phase, given, settings
from torch.utils import _pytree as pytree

import npugraph
import torchair
from npugraph.ge.fx.operator_parts import PARTS
from tests.python.device.compiled.test_ge_operators_of_ascend import check_equal, compiled, models
from tests.python.device.drawn_calls import Call, calls
from tests.python.device.npu_operators import integers, normal
from tests.python.device.operators.test_npu_drawn_calls import operator
from tests.python.device.writing_calls import CALLS
from tests.python.ge.air_runner import BareRoot, arguments_of, read
from tests.python.ge.converted import formula

__all__ = ["models"]  # a fixture

# The operators of Ascend IR that calls become, and nothing else where they write in place.
IN_PLACE = {
    "scatter_update_": "Scatter",
    "npu_scatter_nd_update_": "ScatterNdUpdate",
    "npu_quant_scatter_": "QuantUpdateScatter",
    "npu_scatter_pa_kv_cache": "ScatterPaKvCache",
    "npu_kv_rmsnorm_rope_cache": "KvRmsNormRopeCache",
    "npu_kv_rmsnorm_rope_cache_v2": "KvRmsNormRopeCache",
    "npu_qkv_rms_norm_rope_cache": "QkvRmsNormRopeCache",
    "npu_mla_prolog_v2": "MlaPrologV2",
    "npu_mla_prolog_v3": "MlaPrologV3",
    "npu_recurrent_gated_delta_rule": "RecurrentGatedDeltaRule",
}
ON_COPIES = {
    "scatter_update": "Scatter",
    "npu_scatter_nd_update": "ScatterNdUpdate",
    "npu_quant_scatter": "QuantUpdateScatter",
    "npu_scatter_pa_kv_cache_functional": "ScatterPaKvCache",
}
_OF_GRAPHS = {"Data", "NetOutput", "RefData"}


def copied(values: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda x: x.clone() if x.is_contiguous() else x, values)


def drawn(name: str) -> Call:
    """One of the calls that tests of the operator draw."""
    found: list[Call] = []

    @settings(
        max_examples=2,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(calls(name))
    def each(call: Call) -> None:
        found.append(call)

    each()
    return found[-1]


def check(run: Callable[..., Any], eager: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Compares results and arguments, which both calls may write."""
    ours, theirs = copied((args, kwargs)), copied((args, kwargs))
    check_equal(run(*ours[0], **ours[1]), eager(*theirs[0], **theirs[1]))
    check_equal(ours, theirs)


# Calls in which the engine can derive all sizes if every size is symbolic.
ALL_SYMBOLIC = {*IN_PLACE, *ON_COPIES} - {
    *("npu_kv_rmsnorm_rope_cache", "npu_kv_rmsnorm_rope_cache_v2", "npu_qkv_rms_norm_rope_cache"),
    *("npu_mla_prolog_v2", "npu_mla_prolog_v3"),
}
CASES = [(name, False) for name in (*IN_PLACE, *ON_COPIES)] + [(name, True) for name in sorted(ALL_SYMBOLIC)]


@pytest.mark.parametrize(("name", "dynamic"), CASES)
def test_a_drawn_call(name: str, dynamic: bool, models: list[Any]) -> None:
    op = operator(name)
    args, kwargs = drawn(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        made = op(*args, **kwargs)
        given = pytree.tree_leaves((args, kwargs))
        results = [x for x in pytree.tree_leaves(made) if isinstance(x, torch.Tensor)]
        return [x for x in results if all(x is not y for y in given)]

    check(compiled(call, dynamic=dynamic or None), call, args, kwargs)
    types = {op.type for model in models for op in model.op} - _OF_GRAPHS
    assert types == ({IN_PLACE[name]} if name in IN_PLACE else {"TensorMove", ON_COPIES[name]})


# Calls of tests of writes, and the operators of Ascend IR that they become.
WRITING = {
    "npu_add_quant_matmul_": {"QuantBatchMatmulInplaceAdd"},
    "npu_fused_causal_conv1d": {"FusedCausalConv1d"},
    "npu_fused_causal_conv1d_v2": {"InplaceFusedCausalConv1d"},
}


@pytest.mark.parametrize("name", WRITING)
def test_a_call_that_writes(name: str, models: list[Any]) -> None:
    op = operator(name)
    args, kwargs = CALLS[f"npu::{name}"]
    returns_new = name == "npu_fused_causal_conv1d"

    def call(*args: Any, **kwargs: Any) -> Any:
        made = op(*args, **kwargs)
        return made if returns_new else None

    check(compiled(call), call, args, kwargs)
    assert {op.type for model in models for op in model.op} - _OF_GRAPHS == WRITING[name]


def test_rotary_embedding_returns_copies_of_what_it_writes(models: list[Any]) -> None:
    def call(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        a, b = torch_npu.npu_apply_rotary_pos_emb(q * 2, k, cos, sin)
        k.add_(1)
        return a, b

    x = [normal(1, 2, heads, 64, seed=heads).npu() for heads in (4, 2, 1, 1)]
    check(compiled(call), call, x, {})
    assert {"ApplyRotaryPosEmb", "TensorMove"} < {op.type for op in models[0].op}


KEYS, STEPS = (2, 4, 64, 16), (2, 4, 1, 16)  # batch, heads, places, size of a head


def decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, at: torch.Tensor, *caches: torch.Tensor) -> torch.Tensor:
    """A step of attention over caches, to which it adds a row."""
    keys, values = caches
    torch_npu.scatter_update_(keys, at, k, 2)
    torch_npu.scatter_update_(values, at, v, 2)
    return torch_npu.npu_prompt_flash_attention(q, keys, values, num_heads=KEYS[1], input_layout="BNSD")


def inputs_of_decode(step: int = 0) -> list[torch.Tensor]:
    rows = [normal(*STEPS, seed=10 * step + i).npu() for i in range(3)]
    caches = [normal(*KEYS, seed=i).npu() for i in range(2)]
    return [*rows, torch.tensor([3 + step, 40 + step]).npu(), *caches]


def test_a_step_of_attention_is_one_graph(models: list[Any]) -> None:
    """Each operator is whole, reads of the caches come behind the writes, and no byte of the caches is copied."""
    earlier = set(npugraph.artifacts())
    run = compiled(decode)
    *_, keys, values = inputs_of_decode()
    expected = [keys.clone(), values.clone()]
    for step in range(4):
        inputs = inputs_of_decode(step)[:4]
        check_equal(run(*inputs, keys, values), decode(*inputs, *expected))
        check_equal([keys, values], expected)
    (model,) = models
    inputs = ("arg0_1, arg1_1, arg2_1", "arg3_1, arg1_1, arg4_1")
    writes = [f"Scatter({names}, reduce='update', axis=2)" for names in inputs]
    assert formula(model).startswith(f"PromptFlashAttention(arg5_1, {writes[0]}, {writes[1]}, ")
    assert {op.type for op in model.op} - _OF_GRAPHS == {"Scatter", "PromptFlashAttention"}
    (artifact,) = [artifact for artifact in npugraph.artifacts() if artifact not in earlier]
    assert artifact.memory["copied_bytes_per_replay"] == 0


def update_rows(cache: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> None:
    torch_npu.npu_scatter_nd_update_(cache, places, rows)


def test_a_read_of_the_old_values_is_right(models: list[Any]) -> None:
    """What is read before the write stands before it in the graph. What needs the old values later gets a copy."""

    def before(cache: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        first = cache[0] * 2
        update_rows(cache, places, rows)
        return first + cache[1]

    def behind(cache: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        old = cache.clone()
        update_rows(cache, places, rows)
        return old * cache

    inputs = [normal(8, 4).npu(), torch.tensor([[0], [1]]).npu(), normal(2, 4, seed=1).npu()]
    for function, moves in ((before, 0), (behind, 1)):
        models.clear()
        check(compiled(function), function, inputs, {})
        types = [op.type for op in models[0].op]
        assert types.count("TensorMove") == moves and types.count("ScatterNdUpdate") == 1


def test_several_writes_of_one_tensor_are_a_chain(models: list[Any]) -> None:
    def twice(cache: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        update_rows(cache, places, rows)
        middle = cache.sum()
        update_rows(cache, places + 1, rows * 2)
        return middle

    inputs = [normal(8, 4).npu(), torch.tensor([[0], [4]]).npu(), normal(2, 4, seed=1).npu()]
    check(compiled(twice), twice, inputs, {})
    types = [op.type for op in models[0].op]
    assert types.count("ScatterNdUpdate") == 2 and "TensorMove" not in types and "Assign" not in types


def test_a_view_of_a_cache_is_written(models: list[Any]) -> None:
    def layers(caches: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        update_rows(caches[1], places, rows)
        return caches.sum((1, 2))

    inputs = [normal(3, 8, 4).npu(), torch.tensor([[0], [4]]).npu(), normal(2, 4, seed=1).npu()]
    check(compiled(layers), layers, inputs, {})
    assert "ScatterNdUpdate" in {op.type for op in models[0].op}


def test_what_is_differentiated_is_taken_apart() -> None:
    def loss(x: torch.Tensor, cache: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_scatter_nd_update(cache, places, x * 2).square().sum()

    x, cache, places = normal(2, 4).npu(), normal(8, 4, seed=1).npu(), torch.tensor([[0], [4]]).npu()
    gradients = []
    for function in (loss, torch.compile(loss, backend=torchair.get_npu_backend())):
        leaf = x.clone().requires_grad_()
        function(leaf, cache, places).backward()
        gradients.append(leaf.grad)
    check_equal(*gradients)


def latent(kv: torch.Tensor, gamma: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *rest: torch.Tensor) -> Any:
    return torch_npu.npu_kv_rmsnorm_rope_cache(kv, gamma, cos, sin, *rest, cache_mode="PA")[2:]


def inputs_of_latent(batch: int) -> list[torch.Tensor]:
    rows = [normal(batch, 1, 1, 24).npu(), normal(16).npu(), *(normal(batch, 1, 1, 8, seed=i).npu() for i in (1, 2))]
    return [*rows, integers(0, 32, batch).npu(), normal(4, 8, 1, 8, seed=3).npu(), normal(4, 8, 1, 16, seed=4).npu()]


def test_batches_may_change(models: list[Any]) -> None:
    run = compiled(latent)
    for batch in (3, 5, 2):
        inputs = inputs_of_latent(batch)
        for place in (0, 2, 3, 4):
            torch._dynamo.mark_dynamic(inputs[place], 0)
        check_equal(run(*inputs), latent(*inputs_of_latent(batch)))
    assert len(models) == 1


def test_a_file_writes_the_cache_without_torch(tmp_path: Path) -> None:
    """npugraph-run returns the results with the bits of the process; the operator in the file is whole."""
    root = BareRoot(tmp_path)

    class Model(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> Any:
            return decode(*inputs)

    model = Model()
    inputs = [x.cpu() for x in inputs_of_decode()]
    torchair.dynamo_export(*inputs_of_decode(), model=model, export_path=str(root.files), export_name="m")
    file = read(root.files / "m.air")
    assert {op.type for op in file.graph[0].op if PARTS in op.attr} == {"Scatter", "PromptFlashAttention"}
    want = compiled(decode)(*inputs_of_decode())
    (got,) = root.run("m.air", arguments_of(file, model, inputs, {}))
    assert np.array_equal(got, want.cpu().numpy())
