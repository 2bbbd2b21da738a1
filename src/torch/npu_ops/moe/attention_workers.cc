// SPDX-License-Identifier: Apache-2.0
// Ranks that compute attention, in models whose feed-forward networks are on other ranks. These operators work on a
// schedule_context and on memory of other ranks whose layouts are Ascend's own: only sizes are known.
#include <tuple>

#include "torch/npu_ops/framework/checks.h"
#include "torch/npu_ops/moe/families.h"

namespace npugraph::npu_ops {
namespace {

using at::IntArrayRef;

Tensor scheduled(const Tensor& context) { return at::empty_like(context); }

Tensor& scheduled_in_place(Tensor& context) { return context; }

// One row of `hidden_size` for each row of expert_scales, and the number of the next layer.
std::tuple<Tensor, Tensor> attention_worker_combine(const Tensor&, const Tensor& expert_scales, const Tensor& layer_id,
                                                    int64_t hidden_size, int64_t token_dtype, int64_t) {
  check_choice("npu_attention_worker_combine", "token_dtype", token_dtype, {0, 1});
  const at::ScalarType type = token_dtype == 0 ? at::kHalf : at::kBFloat16;
  return {expert_scales.new_empty_symint({expert_scales.sym_size(0), hidden_size}, type), at::empty_like(layer_id)};
}

void attention_to_ffn(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      c10::string_view, int64_t, IntArrayRef, IntArrayRef, IntArrayRef, int64_t, const OptionalTensor&,
                      const OptionalTensor&, int64_t, int64_t, int64_t) {}

}  // namespace

void define_attention_workers(Definitions& npu) {
  npu.shaped("attention_worker_scheduler", &scheduled);
  npu.shaped("attention_worker_scheduler_", &scheduled_in_place);
  npu.shaped("npu_attention_to_ffn", &attention_to_ffn);
  npu.shaped("npu_attention_worker_combine", &attention_worker_combine);
}

}  // namespace npugraph::npu_ops
