// SPDX-License-Identifier: Apache-2.0
// Ranks that compute feed-forward networks, in models whose attention is on other ranks. These operators work on a
// schedule_context and on memory of other ranks whose layouts are Ascend's own: only sizes are known.
#include <tuple>

#include "torch/npu_ops/framework/checks.h"
#include "torch/npu_ops/moe/families.h"

namespace npugraph::npu_ops {
namespace {

using at::IntArrayRef;
using Batch = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Tensor scheduled(const Tensor& context, int64_t, int64_t) { return at::empty_like(context); }

Tensor& scheduled_in_place(Tensor& context, int64_t, int64_t) { return context; }

// max_out_shape is sessions, tokens of each, experts of each token and values of each row. Results: rows, and for each
// of them session, micro batch, token, place among those of its expert, and scale; rows of each expert; their number.
Batch ffn_worker_batching(const Tensor& context, int64_t expert_num, IntArrayRef max_out_shape, int64_t token_dtype,
                          int64_t, int64_t) {
  constexpr const char* kOp = "npu_ffn_worker_batching";
  constexpr at::ScalarType kTypes[] = {at::kHalf, at::kBFloat16, at::kChar};
  check_choice(kOp, "token_dtype", token_dtype, {0, 1, 2});
  TORCH_CHECK(max_out_shape.size() == 4, kOp, ": max_out_shape has ", max_out_shape.size(), " numbers, allowed are 4");
  const int64_t rows = max_out_shape[0] * max_out_shape[1] * max_out_shape[2];
  auto of_rows = [&] { return context.new_empty({rows}, at::kInt); };
  return {context.new_empty({rows, max_out_shape[3]}, kTypes[token_dtype]),
          context.new_empty({expert_num, 2}, at::kLong),
          of_rows(),
          of_rows(),
          of_rows(),
          of_rows(),
          context.new_empty({rows}, at::kFloat),
          context.new_empty({1}, at::kLong)};
}

void ffn_to_attention(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      c10::string_view, int64_t, IntArrayRef, IntArrayRef, const OptionalTensor&) {}

}  // namespace

void define_ffn_workers(Definitions& npu) {
  npu.shaped("ffn_worker_scheduler", &scheduled);
  npu.shaped("ffn_worker_scheduler_", &scheduled_in_place);
  npu.shaped("npu_ffn_to_attention", &ffn_to_attention);
  npu.shaped("npu_ffn_worker_batching", &ffn_worker_batching);
}

}  // namespace npugraph::npu_ops
