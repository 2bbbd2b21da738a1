// SPDX-License-Identifier: Apache-2.0
// The families of operators. Each is a function in the file of its name, define_norms() in norms/norms.cc, which adds
// the rows of its operators.
#pragma once

#include "device/npu_ops/framework/operator_library.h"

// clang-format off
#define NPUGRAPH_FAMILIES(FAMILY) \
  FAMILY(activations) \
  FAMILY(assignments) \
  FAMILY(atb_gating) \
  FAMILY(atb_serving) \
  FAMILY(attention_softmax) \
  FAMILY(attention_workers) \
  FAMILY(block_sparse_attention) \
  FAMILY(boxes) \
  FAMILY(calibration) \
  FAMILY(causal_convolutions) \
  FAMILY(communication) \
  FAMILY(compressed_attention) \
  FAMILY(compressed_weights) \
  FAMILY(compression) \
  FAMILY(convolutions) \
  FAMILY(deformable_convolutions) \
  FAMILY(delta_rule) \
  FAMILY(detection) \
  FAMILY(dropout) \
  FAMILY(exchanges) \
  FAMILY(ffn_workers) \
  FAMILY(float_status) \
  FAMILY(floyd_attention) \
  FAMILY(formats) \
  FAMILY(fused_infer_attention) \
  FAMILY(fusion_attention) \
  FAMILY(gradients) \
  FAMILY(grouped_fusions) \
  FAMILY(grouped_matmul) \
  FAMILY(hyper_connections) \
  FAMILY(indexing) \
  FAMILY(layer_norms) \
  FAMILY(lightning_indexer) \
  FAMILY(losses) \
  FAMILY(marks) \
  FAMILY(matmul) \
  FAMILY(matmul_checksum) \
  FAMILY(matmul_fusions) \
  FAMILY(mla_preprocess) \
  FAMILY(mla_prolog) \
  FAMILY(moe_distribute) \
  FAMILY(moe_gating) \
  FAMILY(moe_permute) \
  FAMILY(moe_results) \
  FAMILY(moe_routing) \
  FAMILY(moe_setup) \
  FAMILY(multi_head_attention) \
  FAMILY(mx_dual_level) \
  FAMILY(mx_gates) \
  FAMILY(mx_groups) \
  FAMILY(mx_quant) \
  FAMILY(norms) \
  FAMILY(obfuscation) \
  FAMILY(optimisers) \
  FAMILY(paged_attention) \
  FAMILY(paged_cache) \
  FAMILY(quant_activations) \
  FAMILY(quant_exchanges) \
  FAMILY(quant_fusion_attention) \
  FAMILY(quant_fusions) \
  FAMILY(quant_matmul) \
  FAMILY(quant_norms) \
  FAMILY(quantise) \
  FAMILY(recurrent) \
  FAMILY(recurrent_gradients) \
  FAMILY(recurrent_layers) \
  FAMILY(region_pooling) \
  FAMILY(rope_cache) \
  FAMILY(rope_quant_cache) \
  FAMILY(rotary) \
  FAMILY(rotated_boxes) \
  FAMILY(sampling) \
  FAMILY(scatter) \
  FAMILY(selected_attention) \
  FAMILY(shapes) \
  FAMILY(silent_checks) \
  FAMILY(sparse_attention) \
  FAMILY(sparse_attention_gradients) \
  FAMILY(spectra) \
  FAMILY(tensor_dumps) \
  FAMILY(vocabulary_losses) \
  FAMILY(wrapped_collectives)
// clang-format on

namespace npugraph::npu_ops {

#define NPUGRAPH_DECLARE(family) void define_##family(OperatorLibrary& library);
NPUGRAPH_FAMILIES(NPUGRAPH_DECLARE)
#undef NPUGRAPH_DECLARE

}  // namespace npugraph::npu_ops
