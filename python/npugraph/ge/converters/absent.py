# SPDX-License-Identifier: Apache-2.0
"""Targets of ATen, of Ascend, of higher-order operators and of Python for which torchair has a converter and npugraph
has none."""

from __future__ import annotations

_WRITES = "Graphs of operators are functional: AOTAutograd puts the form in its place that returns a new tensor."
_PACKET = "FX graphs have overloads of operators, and no packets."
_COMPLEX = "The engine does not compute complex numbers."
_ACCELERATORS = "Only accelerators have it: SyncBatchNorm on npu is computed by its parts, eagerly."
_READS = "The operator reads numbers of a tensor of the host before it computes."
_ROUNDED = "The engine follows sizes in integers, and they round floats."
_STATES = "The host reads and sets the states of generators between graphs."

_SIZES = "The host knows only the sizes of the results of this operator: calls of it raise an error."

# From the name of each target to the reason. A call runs eagerly.
ABSENT = {
    "aten._fft_c2c.default": _COMPLEX,
    "aten._foreach_addcdiv.Tensor": _READS,
    "aten._foreach_addcmul.Tensor": _READS,
    "aten._native_batch_norm_legit.default": _WRITES,
    "aten.batch_norm_backward_elemt.default": _ACCELERATORS,
    "aten.batch_norm_backward_reduce.default": _ACCELERATORS,
    "aten.batch_norm_elemt.default": _ACCELERATORS,
    "aten.bitwise_right_shift_.Tensor": _WRITES,
    "aten.erfinv.out": _WRITES,
    "aten.expm1.out": _WRITES,
    "aten.log_sigmoid_backward.grad_input": _WRITES,
    "aten.log_sigmoid_forward.output": _WRITES,
    "aten.masked_fill_.Scalar": _WRITES,
    "aten.matmul_backward.default": "Only accelerators have it, and autograd takes gradients of products apart.",
    "aten.mish.out": _WRITES,
    "aten.nan_to_num.out": _WRITES,
    "aten.sym_numel": _PACKET,
    "aten.sym_size": _PACKET,
    "aten.view_as_complex.default": _COMPLEX,
    "aten.view_as_real.default": _COMPLEX,
    "higher_order.run_and_save_rng_state": _STATES,
    "higher_order.run_with_rng_state": _STATES,
    "math.ceil": _ROUNDED,
    "math.floor": _ROUNDED,
    "npu.attention_worker_scheduler.default": _SIZES,
    "npu.batch_norm_gather_stats_update.default": _ACCELERATORS,
    "npu.ffn_worker_scheduler.default": _SIZES,
    "npu.npu_attention_to_ffn.default": _SIZES,
    "npu.npu_ffn_to_attention.default": _SIZES,
}
