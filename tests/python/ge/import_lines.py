# SPDX-License-Identifier: Apache-2.0
"""Lines with which public scripts import names of torchair. ``torchair`` in them may be ``torch_npu.dynamo.torchair``,
and ``_ge_concrete_graph`` may be ``ge_concrete_graph``, the name that it had before."""

_LINES = """\
import torchair
from torchair import CompilerConfig, get_compiler, get_npu_backend, dynamo_export, logger, patch_for_hcom
from torchair import register_fx_node_ge_converter, register_replacement, ge
from torchair.configs.compiler_config import CompilerConfig
from torchair.core.backend import TorchNpuGraph, initialize_graph_engine
from torchair.core._backend import TorchNpuGraph, initialize_graph_engine
from torchair.core.concrete_graph import ValuePack, _is_symlist
from torchair.core._concrete_graph import ValuePack, _is_symlist
from torchair.core.utils import EVENT_LEVEL, logger
from torchair.ge import Cast, Clone, Const, DataType, Format, Tensor, TensorSpec, attr, custom_op
from torchair.ge._ge_graph import DataType, Tensor, TensorSpec, TensorType, auto_convert_to_tensor
from torchair.ge._ge_graph import torch_dtype_value_to_ge_type
from torchair import use_internal_format_weight, npu_format_cast_via_cpu
from torchair.experimental.inference import use_internal_format_weight, npu_format_cast_via_cpu
from torchair.inference import cache_compile, readable_cache, set_dim_gears
from torchair.llm_datadist import create_npu_tensors
from torchair.scope import npu_stream_switch, npu_wait_tensor, super_kernel, limit_core_num, op_never_timeout, data_dump
from torchair.ops import npu_fused_infer_attention_score, npu_fused_infer_attention_score_v2, record, wait, npu_print
from torchair.ops import npu_create_tagged_event, npu_tagged_event_record, npu_tagged_event_wait
from torchair.ops import npu_record_tagged_stream, NpuStreamSwitch, npu_wait_tensor
from torchair.npu_export import dynamo_export
from torchair.npu_fx_compiler import get_compiler, get_npu_backend, _unpack_meta_list
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.fx2ge_converter import declare_supported, register_fx_node_ge_converter
from torchair._ge_concrete_graph.ge_graph import DataType, Tensor, TensorSpec
from torchair._ge_concrete_graph.ge_ir_pb2 import GraphDef, OpDef, TensorDescriptor
from torchair._ge_concrete_graph.supported_declaration import _TypedTensor, F32, F16, F64, BF16, I32, I16, I64, I8
from torchair._ge_concrete_graph.supported_declaration import U8, BOOL, Support
from torchair._ge_concrete_graph.utils import dtype_promote
import torchair._ge_concrete_graph.ge_converter.experimental.patch_for_hcom_allreduce
"""
# Those that need torch_npu.
OF_TORCH_NPU = ("import torchair._contrib.custom_torch_ops", "from torchair._contrib import custom_torch_ops")


def import_lines() -> list[str]:
    """The lines, each also with the older names of its modules."""
    lines = _LINES.splitlines()
    old = [line.replace("._ge_concrete_graph", ".ge_concrete_graph") for line in lines]
    return list(dict.fromkeys(lines + old))
