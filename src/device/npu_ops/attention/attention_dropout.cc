// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/attention_dropout.h"

#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/DistributionsHelper.h>

#include "device/npu/call_record.h"
#include "device/npu/generator.h"
#include "device/npu_ops/framework/call_arguments.h"
#include "device/npu_ops/parts/parts.h"

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

int64_t hash(int64_t x) {
  for (int round = 0; round < 2; ++round) x = ((x ^ (x >> 16)) * kMultiplier) & (kRange - 1);
  return x ^ (x >> 16);
}

// Keys are drawn from [kFirstKey, kRange - 1). An offset that names a key has kNamesKey set, so that it is not 0.
constexpr int64_t kFirstKey = 1;
constexpr int64_t kNamesKey = kRange;

// The key that random_integers draws from a generator with `seed`.
int64_t first_key(int64_t seed) {
  at::CPUGeneratorImpl generator(static_cast<uint64_t>(seed));
  return at::uniform_int_from_to_distribution<int64_t>(kRange - 1 - kFirstKey, kFirstKey)(&generator);
}

int64_t key_of(int64_t seed, int64_t offset) {
  return offset == 0 ? first_key(seed) : hash(seed & (kRange - 1)) ^ (offset & (kRange - 1));
}

// The offset with which `seed` names `key`.
int64_t offset_of(int64_t seed, int64_t key) { return (hash(seed & (kRange - 1)) ^ key) | kNamesKey; }

bool is_known(const Tensor& tensor) {
  const bool in_graph = tensor.is_meta() || tensor.key_set().has(c10::DispatchKey::Python);
  return !in_graph && !npu::is_captured(tensor);
}

// The generator of the device that the operator was called on.
at::Generator generator_of(const Tensor& like) {
  if (const auto of_kernel = npu::generator_of_kernel()) return *of_kernel;
  return like.is_cpu() ? at::detail::getDefaultCPUGenerator()
                       : npu::cpu_generator_of(std::nullopt, like.device().index());
}

// Whether nothing has been drawn since the generator was given its seed.
bool is_fresh(const at::Generator& generator) {
  auto* of_cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::lock_guard lock(of_cpu->mutex_);
  const at::mt19937_data_pod data = of_cpu->engine().data();
  return data.left_ == 1 && data.next_ == 0;
}

}  // namespace

Tensor one_number(int64_t number, const Tensor& like) { return at::full({1}, number, like.options().dtype(at::kLong)); }

DropoutSeed dropout_seed(int64_t seed, int64_t offset, const Tensor& like) {
  return {one_number(key_of(seed, offset), like), one_number(seed, like), one_number(offset, like), seed, offset};
}

DropoutSeed dropout_seed(const Tensor& seed, const OptionalTensor& offset) {
  if (is_known(seed) && (!offset || is_known(*offset)))
    return dropout_seed(values_of(seed).front(), offset ? values_of(*offset).front() : 0, seed);
  TORCH_CHECK(offset, "a seed without an offset must be a number that is known when a graph is captured");
  const Tensor key = hash(seed.bitwise_and(kRange - 1)).bitwise_xor(offset->bitwise_and(kRange - 1));
  return {key, seed, *offset};
}

DropoutSeed draw_dropout_seed(const Tensor& like) {
  const bool knows_generator = is_known(like);
  const bool fresh = knows_generator && is_fresh(generator_of(like));
  const Tensor key = random_integers(kFirstKey, kRange - 1, {1}, like.options());
  if (!knows_generator || !is_known(key)) return {key, key, hash(key).bitwise_xor(key).bitwise_or(kNamesKey)};
  const auto seed = static_cast<int64_t>(generator_of(like).current_seed());
  // Seed 0 with offset 0 is what a call has that gives no seed.
  const int64_t offset = fresh && seed != 0 ? 0 : offset_of(seed, values_of(key).front());
  return {key, one_number(seed, like), one_number(offset, like), seed, offset};
}

Dropout::Dropout(const char* op, double keep_prob) : keep_prob_(keep_prob) {
  TORCH_CHECK(keep_prob >= 0 && keep_prob <= 1, op, ": keep_prob is ", keep_prob, ", allowed are 0 to 1");
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
  const Tensor keyed = number.bitwise_and(kRange - 1).bitwise_xor(hash(key_));
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
