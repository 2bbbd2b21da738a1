# SPDX-License-Identifier: Apache-2.0
"""The table of converters of Ascend's operators that are one call of an operator. ``table.py`` says how a row is read.
Their kernels may read arguments that Ascend IR does not have; the parts of an operator hold the values of these."""

from __future__ import annotations

_ACTIVATIONS = """\
npu.fast_gelu.default: FastGelu x=input
npu.npu_clipped_swiglu.default: ClippedSwiglu *
npu.npu_fast_gelu.default: FastGelu x=input
npu.npu_fast_gelu_backward.default: FastGeluGrad dy=grad x=input
npu.npu_geglu.default: GeGluV2 x=input *
npu.npu_gelu.default: GeluV2 x=input *
npu.npu_gelu_backward.default: GeluGradV2 dy=grad_output x=input *
npu.npu_swiglu.default: SwiGlu x=input *
npu.npu_swiglu_backward.default: SwiGluGrad y_grad=grad_output x=input *
"""

_NORMS = """\
npu.npu_add_rms_norm.default: AddRmsNorm *
npu.npu_add_rms_norm_cast.default: AddRmsNormCast *
npu.npu_add_rms_norm_v2_functional.default: AddRmsNorm *
npu.npu_group_norm_silu.default: GroupNormSilu x=input gamma=weight beta=bias num_groups=group *
npu.npu_masked_softmax_with_rel_pos_bias.default: MaskedSoftmaxWithRelPosBias *
npu.npu_rms_norm.default: RmsNorm x=input *
npu.npu_rms_norm_backward.default: RmsNormGrad dy=dy x=input rstd=rstd gamma=gamma
"""

_ROTARY = """\
npu.npu_interleave_rope.default: InterleaveRope *
npu.npu_masked_causal_conv1d.default: MaskedCausalConv1d *
"""

_ATTENTION = """\
npu.npu_prompt_flash_attention.default: PromptFlashAttention *
"""

_PRODUCTS = """\
npu.npu_batch_gather_matmul.default: AddLora y=input weightA=weight_a weightB=weight_b *
npu.npu_fused_matmul.default: FusedMatMul *
npu.npu_linear.default: MatMul x1=input x2=weight bias=bias transpose_x2=True
npu.npu_transpose_batchmatmul.default: TransposeBatchMatMul x1=input x2=weight *
npu.npu_transpose_quant_batchmatmul.default: TransposeQuantBatchMatMul dtype=meta_outputs.dtype *
"""

_EXPERTS = """\
npu.npu_moe_compute_expert_tokens.default: MoeComputeExpertTokens \
sorted_experts=sorted_expert_for_source_row num_experts=num_expert
npu.npu_moe_distribute_combine.default: MoeDistributeCombine *
npu.npu_moe_distribute_combine_add_rms_norm.default: MoeDistributeCombineAddRmsNorm assist_info=expand_idx *
npu.npu_moe_distribute_combine_v2.default: MoeDistributeCombineV2 *
npu.npu_moe_distribute_dispatch.default: MoeDistributeDispatch *
npu.npu_moe_distribute_dispatch_v2.default: MoeDistributeDispatchV2 *
npu.npu_moe_gating_top_k.default: MoeGatingTopK *
npu.npu_moe_gating_top_k_softmax.default: MoeGatingTopKSoftmax *
npu.npu_moe_gating_top_k_softmax_v2.default: MoeGatingTopKSoftmax *
npu.npu_moe_init_routing.default: MoeInitRouting *
npu.npu_moe_init_routing_v2.default: MoeInitRoutingV3 *
npu.npu_moe_re_routing.default: MoeReRouting *
npu.npu_moe_update_expert.default: MoeUpdateExpert *
"""

_QUANTISATION = """\
npu._npu_rms_norm_backward_quant.default: RmsNormGradQuant dst_type=meta_outputs.dtype *
npu.npu_add_rms_norm_dynamic_mx_quant.default: AddRmsNormDynamicMxQuant dst_type=meta_outputs.dtype *
npu.npu_add_rms_norm_dynamic_quant.default: AddRmsNormDynamicQuant dst_type=meta_outputs.dtype *
npu.npu_anti_mx_quant.default: AntiMxQuant dst_type=meta_outputs.dtype *
npu.npu_anti_quant.default: AscendAntiQuantV2 dst_type=meta_outputs.dtype *
npu.npu_dequant_bias.default: DequantBias activate_scale=activation_scale output_dtype=meta_outputs.dtype *
npu.npu_dynamic_block_mx_quant.default: DynamicBlockMxQuant x=input dst_type=meta_outputs.dtype *
npu.npu_dynamic_block_quant.default: DynamicBlockQuant dst_type=meta_outputs.dtype *
npu.npu_dynamic_dual_level_mx_quant.default: DynamicDualLevelMxQuant x=input *
npu.npu_dynamic_mx_quant.default: DynamicMxQuant x=input dst_type=meta_outputs.dtype *
npu.npu_dynamic_mx_quant_with_dual_axis.default: DynamicMxQuantWithDualAxis x=input dst_type=meta_outputs.dtype *
npu.npu_dynamic_quant.default: DynamicQuant x=input dst_type=meta_outputs.dtype *
npu.npu_dynamic_quant_asymmetric.default: DynamicQuantV2 x=input dst_type=meta_outputs.dtype *
npu.npu_gelu_quant.default: GeluQuant x=input dst_type=meta_outputs.dtype *
npu.npu_group_quant.default: GroupQuant dst_type=meta_outputs.dtype *
npu.npu_grouped_dynamic_block_quant.default: GroupedDynamicBlockQuant dst_type=meta_outputs.dtype *
npu.npu_grouped_dynamic_mx_quant.default: GroupedDynamicMxQuant dst_type=meta_outputs.dtype *
npu.npu_kronecker_quant.default: FlatQuant dst_type=meta_outputs.dtype *
npu.npu_quant_matmul_dequant.default: QuantMatmulDequant x_quant_mode=quant_mode *
npu.npu_quant_matmul_reduce_sum.default: QuantMatmulReduceSum dims=[0] dtype=meta_outputs.dtype *
npu.npu_quant_max.default: QuantMax dst_type=meta_outputs.dtype *
npu.npu_rms_norm_dynamic_mx_quant.default: RmsNormDynamicMxQuant dst_type=meta_outputs.dtype *
npu.npu_rotate_quant.default: RotateQuant y_dtype=meta_outputs.dtype *
npu.npu_swiglu_mx_quant.default: SwigluMxQuant dst_type=meta_outputs.dtype *
npu.npu_trans_quant_param.default: TransQuantParamV2 *
npu.npu_weight_quant_batchmatmul.default: WeightQuantBatchMatmulV2 *
"""

_CONVERSIONS = """\
npu._npu_dtype_cast.default: Cast x=input dst_type=meta_outputs.dtype
npu._npu_dtype_cast_backward.default: Cast x=grad dst_type=meta_outputs.dtype
npu.npu_dtype_cast.default: Cast x=input dst_type=meta_outputs.dtype
npu.npu_dtype_cast_backward.default: Cast x=grad dst_type=meta_outputs.dtype
"""

# Kernels that read values of their arguments: operators of the host compute them.
_WHOLE = """\
npu.npu_attention_worker_combine.default: AttentionWorkerCombine *
npu.npu_ffn_worker_batching.default: FfnWorkerBatching *
npu.npu_grouped_matmul_finalize_routing.default: GroupedMatmulFinalizeRouting dtype=0 *
npu.npu_quant_grouped_matmul_dequant.default: QuantGroupedMatmulDequant x_quant_mode=quant_mode *
npu.npu_recurrent_gated_delta_rule_functional.default: RecurrentGatedDeltaRule *
"""

# Products with exchanges between ranks, which operators of the host compute.
_EXCHANGES = """\
npu._npu_distribute_barrier.default: DistributeBarrier *
npu.npu_all_gather_base_mm.default: AllGatherMatmul x1=input group=hcom rank_size=world_size \
is_gather_out=gather_output *
npu.npu_all_to_all_matmul.default: AlltoAllMatmul group=hcom alltoall_out_flag=all2all_out_flag world_size=world_size *
npu.npu_all_to_all_quant_matmul.default: AlltoAllMatmul group=hcom comm_scale=common_scale \
comm_quant_mode=common_quant_mode alltoall_out_flag=all2all_out_flag y_dtype=meta_outputs.dtype *
npu.npu_alltoallv_gmm.default: AlltoAllvGroupedMatMul group=hcom *
npu.npu_gmm_alltoallv.default: GroupedMatMulAlltoAllv group=hcom *
npu.npu_matmul_all_to_all.default: MatmulAlltoAll group=hcom *
npu.npu_quant_matmul_all_to_all.default: MatmulAlltoAll group=hcom comm_scale=common_scale \
comm_quant_mode=common_quant_mode y_dtype=meta_outputs.dtype *
npu.npu_quant_mm_reduce_scatter.default: MatmulReduceScatterV2 x1=input group=hcom rank_size=world_size \
is_amax_out=amax_output y_dtype=meta_outputs.dtype *
npu.npu_mm_all_reduce_base.default: MatmulAllReduce group=hcom *
npu.npu_mm_reduce_scatter_base.default: MatmulReduceScatter x1=input group=hcom rank_size=world_size *
"""

_TABLES = (
    *(_ACTIVATIONS, _NORMS, _ROTARY, _ATTENTION, _PRODUCTS, _EXPERTS, _QUANTISATION),
    *(_CONVERSIONS, _WHOLE, _EXCHANGES),
)
ROWS = tuple(row for table in _TABLES for row in table.splitlines())
