// SPDX-License-Identifier: Apache-2.0
// Scheduling operators that have no plain published definition: sizes and types of their results.
#include <tuple>

#include "torch/npu_ops/checks.h"
#include "torch/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

using Two = std::tuple<Tensor, Tensor>;

Tensor like(const Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); }

Tensor scheduled(const Tensor& input) { return like(input); }

Tensor ffn_scheduled(const Tensor& input, int64_t, int64_t) { return like(input); }

Two attention_worker_combine(const Tensor&, const Tensor& expert_scales, const Tensor& layer_id, int64_t hidden_size,
                             int64_t token_dtype, int64_t) {
  check_choice("npu_attention_worker_combine", "token_dtype", token_dtype, {0, 1});
  const at::ScalarType type = token_dtype == 0 ? at::kHalf : at::kBFloat16;
  return {expert_scales.new_empty_symint({expert_scales.sym_size(0), hidden_size}, type), like(layer_id)};
}

Tensor stft_backward(const Tensor&, const Tensor& input, int64_t, std::optional<int64_t>, std::optional<int64_t>,
                     const OptionalTensor&, bool, std::optional<bool>, std::optional<bool>) {
  return like(input);
}

}  // namespace

void define_detection_sizes(Definitions& npu) {
  npu.shaped("attention_worker_scheduler", &scheduled);
  npu.shaped("ffn_worker_scheduler", &ffn_scheduled);
  npu.shaped("npu_attention_worker_combine", &attention_worker_combine);
  npu.shaped("stft_backward", &stft_backward);
}

}  // namespace npugraph::npu_ops
