// SPDX-License-Identifier: Apache-2.0
// Choice of the next token from logits.
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"
#include "device/npu_ops/tensors/cut_logits.h"

namespace npugraph::npu_ops {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void check_one_per_row(const char* op, const char* name, const Tensor& tensor, const Tensor& logits) {
  check_dims(op, name, tensor, 1, 1);
  TORCH_CHECK(tensor.sym_size(0) == logits.sym_size(0), op, ": ", name, " has ", tensor.sym_size(0),
              " elements, logits has ", logits.sym_size(0), " rows");
}

Tensor top_k_top_p(const Tensor& logits, const OptionalTensor& p, const OptionalTensor& k) {
  constexpr const char* kOp = "npu_top_k_top_p";
  check_floating(kOp, "logits", logits);
  check_dims(kOp, "logits", logits, 2, 2);
  if (k) check_one_per_row(kOp, "k", *k, logits);
  if (p) check_one_per_row(kOp, "p", *p, logits);
  if (std::optional<Tensor> cut = cut_logits(logits, p, k)) return *std::move(cut);
  auto [sorted, places] = at::sort(logits, /*stable=*/true, -1, /*descending=*/false);
  if (k) {
    const Tensor smallest = (k->to(at::kLong).neg() + at::Scalar(logits.sym_size(-1))).clamp_min(0).unsqueeze(-1);
    sorted = sorted.masked_fill(sorted < sorted.gather(-1, smallest), kNever);
  }
  if (p) {
    const Tensor below = wide(sorted).softmax(-1).cumsum(-1);
    const Tensor dropped = below <= 1 - wide(*p).unsqueeze(-1);
    const Tensor last = at::zeros_like(dropped.slice(-1, 0, 1));
    sorted = sorted.masked_fill(at::cat({dropped.slice(-1, 0, -1), last}, -1), kNever);
  }
  return at::empty_like(sorted).scatter(-1, places, sorted);
}

struct Limits {
  Tensor top_k, top_p, min_p;  // min_p may be undefined
};

// Which of the probabilities of a row, in descending order, may be chosen. The first one always may.
Tensor allowed(const Tensor& probs, const Limits& limits) {
  const Tensor rank = count_up(probs, probs.sym_size(-1)).unsqueeze(0);
  const Tensor k = limits.top_k.to(at::kLong).unsqueeze(-1), p = wide(limits.top_p).unsqueeze(-1);
  const Tensor within_k = (k <= 0).logical_or(rank < k);
  const Tensor kept = probs * within_k;
  const Tensor share = kept / kept.sum(-1, true);
  Tensor out = within_k.logical_and((p >= 1).logical_or(share.cumsum(-1) - share < p));
  if (limits.min_p.defined()) out = out.logical_and(share >= wide(limits.min_p).unsqueeze(-1) * share.amax(-1, true));
  return out.logical_or(rank == 0);
}

std::tuple<Tensor, Tensor> top_k_top_p_sample(const Tensor& logits, const Tensor& top_k, const Tensor& top_p,
                                              const OptionalTensor& q, std::optional<double> eps, std::optional<bool>,
                                              std::optional<int64_t>, const OptionalTensor& min_ps,
                                              std::optional<int64_t>, std::optional<bool> input_is_logits,
                                              std::optional<c10::string_view> post_sample,
                                              std::optional<at::Generator>) {
  constexpr const char* kOp = "npu_top_k_top_p_sample";
  check_floating(kOp, "logits", logits);
  check_dims(kOp, "logits", logits, 2, 2);
  check_one_per_row(kOp, "top_k", top_k, logits);
  check_one_per_row(kOp, "top_p", top_p, logits);
  TORCH_CHECK(!post_sample || *post_sample == "qSample", kOp, ": post_sample is \"", *post_sample,
              "\", allowed is \"qSample\"");
  const auto [sorted, places] = at::sort(wide(logits), /*stable=*/true, -1, /*descending=*/true);
  const Tensor probs = input_is_logits.value_or(true) ? sorted.softmax(-1) : sorted;
  const Tensor dropped = allowed(probs, {top_k, top_p, min_ps ? *min_ps : Tensor()}).logical_not();
  Tensor rated = probs.masked_fill(dropped, 0);
  rated = rated / rated.sum(-1, true);
  if (q) {
    check_same_shape(kOp, "q", *q, "logits", logits);
    rated = rated / (wide(*q).gather(-1, places).abs() + eps.value_or(1e-8));
  }
  const Tensor best = rated.masked_fill(dropped, kNever).argmax(-1, true);
  const Tensor masked = at::empty_like(sorted).scatter(-1, places, sorted.masked_fill(dropped, kNever));
  return {places.gather(-1, best).squeeze(-1), masked.to(at::kFloat)};
}

}  // namespace

void define_sampling(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_top_k_top_p(Tensor logits, Tensor? p=None, Tensor? k=None) -> Tensor",
      .kernel = parts(&top_k_top_p),
      .definition = "Top-k and top-p filtering of logits before sampling (nucleus sampling: Holtzman et al., 2020). In "
                    "each row, logits below the k-th greatest become -inf, while those equal to it stay. Then the "
                    "smallest remaining logits whose softmax probabilities sum up to at most 1 - p become -inf, but "
                    "never the greatest one. logits is [B, V], p is [B], and k is [B] with values of at least 1. A "
                    "step is skipped if its argument is None. The result has the shape and the type of logits.",
  });
  library.add({
      .schema =
          "npu::npu_top_k_top_p_sample(Tensor logits, Tensor top_k, Tensor top_p, Tensor? q=None, float? eps=1e-8, "
          "bool? is_need_logits=False, int? top_k_guess=32, Tensor? min_ps=None, int? ks_max=1024, bool? "
          "input_is_logits=True, str? post_sample='qSample', Generator? generator=None) -> (Tensor, Tensor)",
      .kernel = parts(&top_k_top_p_sample),
      .definition = "Samples one token for each row of logits after top-k, top-p and min-p filtering. The top_k most "
                    "probable tokens (all where top_k <= 0) are taken, and their probabilities are renormalised. Of "
                    "these, a token stays if the more probable ones have a sum of less than top_p (no limit where "
                    "top_p >= 1), and if its own probability is at least min_ps times the greatest. The most probable "
                    "token always stays. logits is [B, V], and holds probabilities with input_is_logits=False. top_k, "
                    "top_p and min_ps are [B]. Results: the tokens [B] in int64, and logits [B, V] in float32 with "
                    "-inf for the tokens that do not stay. The token is the argmax of probability / (|q| + eps), which "
                    "is a random sample if q [B, V] is exponentially distributed (Gumbel, 1954), and the most probable "
                    "token without q. post_sample must be qSample. is_need_logits, top_k_guess, ks_max and generator "
                    "are ignored.",
  });
}

}  // namespace npugraph::npu_ops
