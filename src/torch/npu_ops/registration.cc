// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/registration.h"

#include <mutex>

#include "torch/npu_ops/attention/families.h"
#include "torch/npu_ops/exchange/families.h"
#include "torch/npu_ops/exchange/wrapped_collectives.h"
#include "torch/npu_ops/host_arguments.h"
#include "torch/npu_ops/layers/families.h"
#include "torch/npu_ops/matmul/families.h"
#include "torch/npu_ops/moe/families.h"
#include "torch/npu_ops/norms/families.h"
#include "torch/npu_ops/quantisation/families.h"
#include "torch/npu_ops/recurrent/families.h"
#include "torch/npu_ops/rotary/families.h"
#include "torch/npu_ops/sparse_attention/families.h"
#include "torch/npu_ops/tensors/families.h"
#include "torch/npu_ops/training/families.h"
#include "torch/npu_ops/vision/families.h"

namespace npugraph::npu_ops {

void register_operators() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_process_group_class();
    static auto* npu = new Definitions("npu");
    static auto* atb = new Definitions("atb");
    define_activations(*npu);
    define_assignments(*npu);
    define_atb_gating(*atb);
    define_atb_serving(*atb);
    define_attention_softmax(*npu);
    define_attention_workers(*npu);
    define_block_sparse_attention(*npu);
    define_boxes(*npu);
    define_calibration(*npu);
    define_causal_convolutions(*npu);
    define_communication(*npu);
    define_compressed_attention(*npu);
    define_compressed_weights(*npu);
    define_compression(*npu);
    define_convolutions(*npu);
    define_deformable_convolutions(*npu);
    define_delta_rule(*npu);
    define_detection(*npu);
    define_dropout(*npu);
    define_exchanges(*npu);
    define_ffn_workers(*npu);
    define_float_status(*npu);
    define_floyd_attention(*npu);
    define_formats(*npu);
    define_fused_infer_attention(*npu);
    define_fusion_attention(*npu);
    define_gradients(*npu);
    define_grouped_fusions(*npu);
    define_grouped_matmul(*npu);
    define_hyper_connections(*npu);
    define_indexing(*npu);
    define_layer_norms(*npu);
    define_lightning_indexer(*npu);
    define_losses(*npu);
    define_marks(*npu);
    define_matmul(*npu);
    define_matmul_checksum(*npu);
    define_matmul_fusions(*npu);
    define_mla_preprocess(*atb);
    define_mla_prolog(*npu);
    define_moe_distribute(*npu);
    define_moe_gating(*npu);
    define_moe_permute(*npu);
    define_moe_results(*npu);
    define_moe_routing(*npu);
    define_moe_setup(*npu);
    define_multi_head_attention(*npu);
    define_mx_dual_level(*npu);
    define_mx_gates(*npu);
    define_mx_groups(*npu);
    define_mx_quant(*npu);
    define_norms(*npu);
    define_obfuscation(*npu);
    define_optimisers(*npu);
    define_paged_attention(*atb);
    define_paged_cache(*npu, *atb);
    define_quant_activations(*npu);
    define_quant_exchanges(*npu);
    define_quant_fusion_attention(*npu);
    define_quant_fusions(*npu);
    define_quant_matmul(*npu);
    define_quant_norms(*npu);
    define_quantise(*npu);
    define_recurrent(*npu);
    define_recurrent_gradients(*npu);
    define_recurrent_layers(*npu);
    define_region_pooling(*npu);
    define_rope_cache(*npu);
    define_rope_quant_cache(*npu);
    define_rotary(*npu);
    define_rotated_boxes(*npu);
    define_sampling(*npu);
    define_scatter(*npu);
    define_selected_attention(*npu);
    define_shapes(*npu);
    define_silent_checks(*npu);
    define_sparse_attention(*npu);
    define_sparse_attention_gradients(*npu);
    define_spectra(*npu);
    define_tensor_dumps(*npu);
    define_vocabulary_losses(*npu);
    npu->complete();
    atb->complete();
    declare_host_arguments();
  });
}

}  // namespace npugraph::npu_ops
