# SPDX-License-Identifier: Apache-2.0
"""Operators of Ascend in GE mode: one operator of Ascend IR each, which the engine computes by its parts, or, if its
kernel reads values, by the operator of the host."""

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
from npugraph.ge import proto
from npugraph.ge.backend import target
from npugraph.ge.converters import ascend_rows, table
from npugraph.ge.converters.user_operators import OPERATOR
from npugraph.ge.fx import graph
from npugraph.ge.fx.operator_parts import PARTS
from tests.python.device.drawn_calls import Call, calls
from tests.python.device.npu_operators import TOLERANCES, integers, normal
from tests.python.device.operators.test_npu_drawn_calls import operator
from tests.python.ge.air_runner import BareRoot
from tests.python.ge.converted import formula, traced, user_inputs

# The operators of Ascend IR that calls become, as the converters of the original make them.
TYPES = {
    "npu_add_rms_norm": {"AddRmsNorm"},
    "npu_add_rms_norm_cast": {"AddRmsNormCast"},
    "npu_add_rms_norm_dynamic_quant": {"AddRmsNormDynamicQuant"},
    "npu_add_rms_norm_v2_functional": {"AddRmsNorm"},
    "npu_all_gather_base_mm": {"AllGatherMatmul"},
    "npu_clipped_swiglu": {"ClippedSwiglu"},
    "npu_dequant_swiglu_quant": {"DequantSwigluQuant"},
    "npu_dynamic_block_mx_quant": {"DynamicBlockMxQuant"},
    "npu_dynamic_mx_quant": {"DynamicMxQuant"},
    "npu_dynamic_quant": {"DynamicQuant"},
    "npu_fused_infer_attention_score.default": {"FusedInferAttentionScore"},
    "npu_fused_infer_attention_score_v2": {"FusedInferAttentionScore"},
    "npu_fusion_attention": {"FlashAttentionScore"},
    "npu_grouped_dynamic_block_quant": {"GroupedDynamicBlockQuant"},
    "npu_grouped_dynamic_mx_quant": {"GroupedDynamicMxQuant"},
    "npu_grouped_matmul": {"GroupedMatmul"},
    "npu_grouped_matmul_finalize_routing": {"GroupedMatmulFinalizeRouting"},
    "npu_grouped_matmul_swiglu_quant_v2": {"GroupedMatmulSwigluQuantV2"},
    "npu_incre_flash_attention": {"IncreFlashAttention"},
    "npu_interleave_rope": {"InterleaveRope"},
    "npu_linear": {"MatMul"},
    "npu_mm_all_reduce_base": {"MatmulAllReduce"},
    "npu_mm_reduce_scatter_base": {"MatmulReduceScatter"},
    "npu_moe_finalize_routing": {"MoeFinalizeRoutingV2"},
    "npu_moe_gating_top_k": {"MoeGatingTopK"},
    "npu_moe_gating_top_k_softmax": {"MoeGatingTopKSoftmax"},
    "npu_moe_init_routing_v2": {"MoeInitRoutingV3"},
    "npu_moe_re_routing": {"MoeReRouting"},
    "npu_prompt_flash_attention": {"PromptFlashAttention"},
    "npu_quant_matmul": {"QuantBatchMatmulV3", "QuantBatchMatmulV4"},
    "npu_quantize": {"Quantize", "AscendQuantV2"},
    "npu_rms_norm": {"RmsNorm"},
    "npu_rotary_mul": {"RotaryMul", "RotaryPositionEmbedding"},
    "npu_swiglu": {"SwiGlu"},
    "npu_transpose_batchmatmul": {"TransposeBatchMatMul"},
    "npu_weight_quant_batchmatmul": {"WeightQuantBatchMatmulV2"},
}
_OF_GRAPHS = {"Data", "NetOutput", "Const"}


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs of GE that are made from now on."""
    made: list[Any] = []

    def noting(*args: Any, **kwargs: Any) -> Any:
        built = graph.build(*args, **kwargs)
        made.append(built.graph)
        return built

    monkeypatch.setattr(target, "build", noting)
    return made


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The function in GE mode, in which an operator without a converter is an error."""
    config = torchair.CompilerConfig()
    config.debug.missing_converters.value = "error"
    torch._dynamo.reset()
    return torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True, **options)


def strides(x: torch.Tensor) -> list[int]:
    """Those that say where an element lies."""
    return [stride for size, stride in zip(x.shape, x.stride(), strict=True) if size > 1 and x.numel()]


def check_equal(got: Any, want: Any) -> None:
    for g, w in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        if not isinstance(w, torch.Tensor):
            assert g == w
            continue
        assert (g.dtype, g.shape, g.device) == (w.dtype, w.shape, w.device)
        assert strides(g) == strides(w)
        if not w.is_floating_point():
            assert torch.equal(g.cpu(), w.cpu())
        else:
            relative, absolute = TOLERANCES[w.dtype]
            torch.testing.assert_close(g.cpu().double(), w.cpu().double(), rtol=relative, atol=absolute, equal_nan=True)


def test_rows_name_arguments_inputs_and_attributes() -> None:
    for text in ascend_rows.ROWS:
        row = table.row_of_ascend(text)
        schema = table.schema_of(row.target)
        assert {*table.argument_names(row)} <= {argument.name for argument in schema.arguments}, text


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_a_drawn_call(name: str, dynamic: bool, models: list[Any]) -> None:
    """The dump has the operator of the table, and the results are those of eager mode, with their strides."""
    op = operator(name)

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
        drawn.append(call)

    drawn: list[Call] = []
    each()
    args, kwargs = drawn[-1]
    want = op(*args, **kwargs)
    got = compiled(lambda *a, **k: op(*a, **k), dynamic=dynamic or None)(*args, **kwargs)
    check_equal(got, want)
    types = {op.type for model in models for op in model.op} - _OF_GRAPHS
    assert types & TYPES[name] and not types - TYPES[name] - {"TensorMove", "Pack"}  # lengths that change are a Pack


# Scaled products with exchanges between ranks, of which there is one, and the operators of Ascend IR.
EXCHANGES = {
    "npu_all_gather_quant_mm": "AllGatherMatmulV2",
    "npu_all_to_all_quant_matmul": "AlltoAllMatmul",
    "npu_quant_matmul_all_to_all": "MatmulAlltoAll",
    "npu_quant_mm_reduce_scatter": "MatmulReduceScatterV2",
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_scaled_product_with_an_exchange(name: str, models: list[Any]) -> None:
    op = operator(name)
    flat = name == "npu_quant_matmul_all_to_all"

    def call(x1: torch.Tensor, x2: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> Any:
        return op(x1, x2, "hcom", 1, x1_scale=rows, x2_scale=columns)

    x1, x2 = integers(-9, 9, 4, 6, dtype=torch.int8), integers(-9, 9, 6, 2, dtype=torch.int8)
    scales = [normal(4), normal(2)] if flat else [normal(4, 1), normal(1, 2)]
    inputs = [x.npu() for x in (x1, x2, *scales)]
    check_equal(compiled(call)(*inputs), call(*inputs))
    assert {op.type for model in models for op in model.op} - _OF_GRAPHS == {EXCHANGES[name]}


def layer(x: torch.Tensor, residual: torch.Tensor, gamma: torch.Tensor, weight: torch.Tensor) -> Any:
    y, _, sums = torch_npu.npu_add_rms_norm(x, residual, gamma)
    return torch_npu.npu_swiglu(y @ weight), sums


def inputs_of_layer(device: str = "npu") -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = [(4, 16), (4, 16), (16,), (16, 32)]
    return [torch.randn(size, generator=generator).to(device) for size in sizes]


def test_an_operator_is_whole_and_has_its_parts(models: list[Any]) -> None:
    inputs = inputs_of_layer()
    check_equal(compiled(layer)(*inputs), layer(*inputs))
    (model,) = models
    norm = "AddRmsNorm(l_x_, l_residual_, l_gamma_)"
    assert formula(model) == f"SwiGlu(MatMul({norm}[0], l_weight_)); {norm}[2]"
    parts = {op.type: {part.type for part in op.attr[PARTS].g.op} for op in model.op if PARTS in op.attr}
    assert {"Swish", "Mul"} < parts["SwiGlu"] and "Rsqrt" in parts["AddRmsNorm"]


def test_parts_fuse_with_their_neighbours() -> None:
    """A task of ``npugraph_ex`` is one of GE mode, too."""
    inputs = inputs_of_layer()
    tasks = []
    for backend in ("npugraph_ex", torchair.get_npu_backend()):
        torch._dynamo.reset()
        earlier = set(npugraph.artifacts())
        torch.compile(layer, backend=backend, fullgraph=True)(*inputs)
        (artifact,) = [artifact for artifact in npugraph.artifacts() if artifact not in earlier]
        tasks.append(len(artifact.tasks))
    assert tasks[0] == tasks[1]


def test_calls_that_differ_in_tensors_share_a_trace() -> None:
    def stack(x: torch.Tensor, gamma: torch.Tensor) -> Any:
        for _ in range(6):
            y, _, x = torch_npu.npu_add_rms_norm(x, x, gamma)
            x = torch_npu.npu_swiglu(torch.cat([x, y], -1))
        return x

    gm = traced(stack, torch.randn(4, 16).npu(), torch.ones(16).npu(), dynamic=True)
    builder = graph._Builder(gm, "g", is_run=True, is_file=False)
    with builder.graph.context():
        builder.build(user_inputs(gm))
    assert builder.operator_parts.traced == 2 and len([op for op in builder.graph.op if PARTS in op.attr]) == 12


def test_a_mask_of_booleans_hides_what_is_true(models: list[Any]) -> None:
    """The parts get the mask as it is, and not converted to the type of the queries."""

    def attend(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_prompt_flash_attention(x, x, x, atten_mask=mask, num_heads=2, input_layout="BNSD")

    inputs = torch.randn(1, 2, 4, 8).npu(), torch.ones(4, 4, dtype=torch.bool).triu(1).npu()
    check_equal(compiled(attend)(*inputs), attend(*inputs))
    assert {op.type for op in models[0].op} - _OF_GRAPHS == {"PromptFlashAttention"}


def test_a_prefetch_waits_for_its_dependency(models: list[Any]) -> None:
    def step(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = x @ weight
        torch_npu.npu_prefetch(weight, y, 64, 16)
        torch_npu.npu_prefetch(weight, None, 8)
        return y.relu()

    inputs = torch.randn(4, 4).npu(), torch.randn(4, 4).npu()
    check_equal(compiled(step)(*inputs), step(*inputs))
    behind, at_once = [op for op in models[0].op if op.type == "Cmo"]
    assert [[*op.input] for op in (behind, at_once)] == [["MatMul:-1", "arg1_1:0"], ["arg1_1:0"]]
    assert (behind.attr["max_size"].i, behind.attr["offset"].i) == (64, 16)


def test_sizes_may_change() -> None:
    """Parts hold sizes of their operands, never numbers."""
    run = compiled(layer, dynamic=True)
    for rows in (4, 7, 1):
        x, residual, gamma, weight = inputs_of_layer()
        inputs = [x[:1].expand(rows, 16).contiguous(), residual[:1].repeat(rows, 1), gamma, weight]
        check_equal(run(*inputs), layer(*inputs))


def test_the_host_computes_what_reads_values(models: list[Any]) -> None:
    """The lengths of groups are read when the graph runs, so the operator of the host is called inside the graph."""

    def experts(x: torch.Tensor, weights: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        how = {"group_list": lengths, "split_item": 3, "group_type": 0, "act_type": 5}
        return torch_npu.npu_grouped_matmul([x + 1], [weights], **how)[0] * 2

    x, weights = torch.randn(6, 8).npu(), torch.randn(3, 8, 4).npu()
    run = compiled(experts)
    for ends in ([2, 4, 6], [0, 5, 6]):
        lengths = torch.tensor(ends).npu()
        check_equal(run(x, weights, lengths), experts(x, weights, lengths))
    (call,) = [op for op in models[0].op if op.type == "GroupedMatmul"]
    assert call.attr[OPERATOR].s == b"npu.npu_grouped_matmul" and PARTS not in call.attr


@pytest.mark.parametrize("kind", [0, 1])
def test_groups_of_rows_need_no_host(kind: int, models: list[Any]) -> None:
    """The engine has a rule for products of groups alone; rows of no group are zeros."""

    def experts(x: torch.Tensor, weights: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        how = {"group_list": lengths, "group_list_type": kind, "split_item": 3, "group_type": 0}
        return torch_npu.npu_grouped_matmul([x], [weights], **how)[0]

    x, weights = torch.randn(6, 8).npu(), torch.randn(3, 8, 4).npu()
    run = compiled(experts)
    for lengths in ([2, 4, 5], [0, 5, 6]) if kind == 0 else ([2, 2, 1], [0, 5, 1]):
        given = torch.tensor(lengths).npu()
        check_equal(run(x, weights, given), experts(x, weights, given))
    (call,) = [op for op in models[0].op if op.type == "GroupedMatmul"]
    assert not {OPERATOR, PARTS} & set(call.attr)


@pytest.mark.parametrize("layout", ["BSH", "BNSD", "BSND"])
def test_attention_of_lengths_needs_no_host(layout: str, models: list[Any]) -> None:
    """The engine has a rule for keys that lengths hide. Sequences without keys are zeros, and what hidden places hold
    has no effect."""
    sizes = {"BSH": [(3, 2, 32), (3, 6, 16)], "BNSD": [(3, 4, 2, 8), (3, 2, 6, 8)]}
    sizes["BSND"] = [(3, 2, 4, 8), (3, 6, 2, 8)]
    query, key, value = (torch.randn(sizes[layout][place]).npu() for place in (0, 1, 1))
    key[2].fill_(torch.nan)
    value[2].fill_(torch.nan)
    how = {"num_heads": 4, "num_key_value_heads": 2, "scale": 0.3, "input_layout": layout}

    def attend(lengths: torch.Tensor) -> torch.Tensor:
        score = torchair.ops.npu_fused_infer_attention_score
        return score(query, key, value, actual_seq_lengths_kv=lengths, **how)[0]

    run = compiled(attend)
    for lengths in ([1, 6, 0], [4, 2, 0]):
        given = torch.tensor(lengths).npu()
        check_equal(run(given), attend(given))
    (call,) = [op for op in models[0].op if op.type == "FusedInferAttentionScore"]
    assert not {OPERATOR, PARTS} & set(call.attr)


def exported(folder: Path) -> BareRoot:
    root = BareRoot(folder)

    class Model(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> Any:
            return layer(*inputs)

    torchair.dynamo_export(*inputs_of_layer(), model=Model(), export_path=str(root.files), export_name="m")
    return root


def test_parts_need_no_torch(tmp_path: Path) -> None:
    """A model with parts runs without torch, with the bits of the process."""
    root = exported(tmp_path)
    inputs = inputs_of_layer()
    torch._dynamo.reset()
    want = torch.compile(layer, backend="npugraph_ex")(*inputs)
    for got, wanted in zip(root.run("m.air", [x.cpu() for x in inputs]), want, strict=True):
        assert np.array_equal(got, wanted.cpu().numpy())


def test_without_parts_the_operator_is_named(tmp_path: Path) -> None:
    root = exported(tmp_path)
    model = proto.ModelDef.FromString((root.files / "m.air").read_bytes())
    for op in model.graph[0].op:
        op.attr.pop(PARTS, None)
    (root.files / "foreign.air").write_bytes(model.SerializeToString())
    with pytest.raises(AssertionError, match=r"of type AddRmsNorm .*: the engine does not compute operators of this"):
        root.run("foreign.air", [x.cpu() for x in inputs_of_layer()])
