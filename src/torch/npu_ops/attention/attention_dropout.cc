// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/attention/attention_dropout.h"

#include <utility>

#include "torch/npu_ops/parts/parts.h"
#include "torch/npu_ops/parts/random_numbers.h"

namespace npugraph::npu_ops {
namespace {

constexpr int64_t kRange = int64_t{1} << 31;  // upper bound of hashes
constexpr int64_t kMultiplier = 0x45d9f3b;    // of 27 bits, so that products do not overflow
constexpr int64_t kBitsInBlock = 128;

// Uniform in [0, kRange): xor-shift-multiply rounds, with a constant from C. Wellons' search for such hashes (2018).
Tensor hash(Tensor x) {
  for (int round = 0; round < 2; ++round) x = x.bitwise_xor(x.__rshift__(16)).mul(kMultiplier).bitwise_and(kRange - 1);
  return x.bitwise_xor(x.__rshift__(16));
}

}  // namespace

bool has_values(const Tensor& tensor) { return !tensor.is_meta() && !tensor.key_set().has(c10::DispatchKey::Python); }

Tensor draw_seed(const Tensor& like) { return random_integers(1, kRange - 1, {1}, like.options()); }

Dropout::Dropout(const char* op, double keep_prob) : keep_prob_(keep_prob) {
  TORCH_CHECK(keep_prob >= 0 && keep_prob <= 1, op, ": keep_prob is ", keep_prob, ", allowed are 0 to 1");
}

void Dropout::set_seed(Tensor seed, int64_t offset) {
  seed_ = std::move(seed);
  offset_ = offset;
}

void Dropout::set_mask(const char* op, const Tensor& mask, const c10::SymInt& weights) {
  const bool bits = mask.scalar_type() == at::kByte && mask.sym_numel() < weights;
  TORCH_CHECK(mask.sym_numel() >= weights || (bits && mask.sym_numel() * 8 >= weights), op, ": dropout_mask has ",
              mask.sym_numel(), " elements for ", weights, " weights");
  mask_ = bits ? from_bits(mask, weights) : mask.flatten().to(at::kBool);
}

Tensor Dropout::kept(const c10::SymInt& first, c10::SymIntArrayRef sizes, const Tensor& like) const {
  if (keeps_all()) return {};
  const c10::SymInt count = c10::multiply_integers(sizes);
  if (mask_.defined()) return mask_.narrow_symint(0, first, count).view_symint(sizes);
  const Tensor number = at::arange(c10::Scalar(count), like.options().dtype(at::kLong)) + c10::Scalar(first);
  const Tensor keyed = number.bitwise_and(kRange - 1).bitwise_xor(hash(seed_.bitwise_and(kRange - 1) + offset_));
  return hash(keyed).lt(static_cast<int64_t>(keep_prob_ * kRange)).view_symint(sizes);
}

Tensor as_bits(const Tensor& kept) {
  const Tensor flat = kept.flatten();
  const c10::SymInt blocks = (flat.sym_size(0) + kBitsInBlock - 1) / kBitsInBlock;
  return pack_bits(longer(flat, 0, blocks * kBitsInBlock - flat.sym_size(0)));
}

Tensor from_bits(const Tensor& bits, const c10::SymInt& count) {
  return unpack_bits(bits.flatten()).narrow_symint(0, 0, count);
}

Dropped drop(const Tensor& x, double keep_prob) {
  const Tensor kept = keep_prob >= 1 ? at::ones_like(x, x.options().dtype(at::kBool))
                                     : uniform(x.sym_sizes(), x.options().dtype(at::kFloat)).lt(keep_prob);
  return {keep_prob >= 1 ? x : x * kept * (keep_prob > 0 ? 1 / keep_prob : 0.0), as_bits(kept)};
}

Tensor drop_again(const Tensor& x, const Tensor& bits, double keep_prob) {
  if (keep_prob >= 1) return x;
  return x * from_bits(bits, x.sym_numel()).view_symint(x.sym_sizes()) * (keep_prob > 0 ? 1 / keep_prob : 0.0);
}

}  // namespace npugraph::npu_ops
