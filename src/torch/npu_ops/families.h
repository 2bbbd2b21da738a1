// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/definitions.h"

namespace npugraph::npu_ops {

void define_activations(Definitions& npu);
void define_assignments(Definitions& npu);
void define_atb_gating(Definitions& atb);
void define_atb_serving(Definitions& atb);
void define_attention_softmax(Definitions& npu);
void define_attention_workers(Definitions& npu);
void define_block_sparse_attention(Definitions& npu);
void define_boxes(Definitions& npu);
void define_calibration(Definitions& npu);
void define_causal_convolutions(Definitions& npu);
void define_communication(Definitions& npu);
void define_compressed_attention(Definitions& npu);
void define_compressed_weights(Definitions& npu);
void define_compression(Definitions& npu);
void define_convolutions(Definitions& npu);
void define_deformable_convolutions(Definitions& npu);
void define_delta_rule(Definitions& npu);
void define_detection(Definitions& npu);
void define_dropout(Definitions& npu);
void define_exchanges(Definitions& npu);
void define_ffn_workers(Definitions& npu);
void define_float_status(Definitions& npu);
void define_floyd_attention(Definitions& npu);
void define_formats(Definitions& npu);
void define_fused_infer_attention(Definitions& npu);
void define_fusion_attention(Definitions& npu);
void define_gradients(Definitions& npu);
void define_grouped_fusions(Definitions& npu);
void define_grouped_matmul(Definitions& npu);
void define_hyper_connections(Definitions& npu);
void define_indexing(Definitions& npu);
void define_layer_norms(Definitions& npu);
void define_lightning_indexer(Definitions& npu);
void define_losses(Definitions& npu);
void define_marks(Definitions& npu);
void define_matmul(Definitions& npu);
void define_matmul_checksum(Definitions& npu);
void define_matmul_fusions(Definitions& npu);
void define_mla_preprocess(Definitions& atb);
void define_mla_prolog(Definitions& npu);
void define_moe_distribute(Definitions& npu);
void define_moe_gating(Definitions& npu);
void define_moe_permute(Definitions& npu);
void define_moe_results(Definitions& npu);
void define_moe_routing(Definitions& npu);
void define_multi_head_attention(Definitions& npu);
void define_mx_dual_level(Definitions& npu);
void define_mx_gates(Definitions& npu);
void define_mx_groups(Definitions& npu);
void define_mx_quant(Definitions& npu);
void define_norms(Definitions& npu);
void define_obfuscation(Definitions& npu);
void define_optimisers(Definitions& npu);
void define_paged_attention(Definitions& atb);
void define_paged_cache(Definitions& npu, Definitions& atb);
void define_quant_activations(Definitions& npu);
void define_quant_exchanges(Definitions& npu);
void define_quant_fusion_attention(Definitions& npu);
void define_quant_fusions(Definitions& npu);
void define_quant_matmul(Definitions& npu);
void define_quant_norms(Definitions& npu);
void define_quantise(Definitions& npu);
void define_recurrent(Definitions& npu);
void define_recurrent_gradients(Definitions& npu);
void define_recurrent_layers(Definitions& npu);
void define_region_pooling(Definitions& npu);
void define_rope_cache(Definitions& npu);
void define_rope_quant_cache(Definitions& npu);
void define_rotary(Definitions& npu);
void define_rotated_boxes(Definitions& npu);
void define_sampling(Definitions& npu);
void define_scatter(Definitions& npu);
void define_selected_attention(Definitions& npu);
void define_shapes(Definitions& npu);
void define_silent_checks(Definitions& npu);
void define_sparse_attention(Definitions& npu);
void define_sparse_attention_gradients(Definitions& npu);
void define_spectra(Definitions& npu);
void define_tensor_dumps(Definitions& npu);
void define_vocabulary_losses(Definitions& npu);

}  // namespace npugraph::npu_ops
