// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/parts/parts.h"

#include <vector>

#include "device/npu/facts.h"
#include "device/npu/generator.h"

namespace npugraph::npu_ops {

at::Tensor count_up(const at::Tensor& like, const c10::SymInt& n) {
  return at::arange(at::Scalar(n), like.options().dtype(at::kLong));
}

at::Tensor longer(const at::Tensor& x, int64_t dim, const c10::SymInt& count, const at::Scalar& value) {
  std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
  sizes[at::maybe_wrap_dim(dim, x.dim())] = count;
  return at::cat({x, x.new_full_symint(sizes, value)}, dim);
}

namespace {

at::Tensor bit_values(const at::Tensor& like) {
  const auto options = like.options().dtype(at::kInt);
  return at::bitwise_left_shift(at::ones({8}, options), at::arange(8, options));
}

}  // namespace

at::Tensor pack_bits(const at::Tensor& bits) {
  return (bits.unflatten_symint(0, {-1, 8}) * bit_values(bits)).sum(1).to(at::kByte);
}

at::Tensor unpack_bits(const at::Tensor& bytes) {
  return bytes.to(at::kInt).unsqueeze(1).bitwise_and(bit_values(bytes)).ne(0).reshape(-1);
}

at::TensorOptions options_on_npu(const char* op, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                 std::optional<at::Device> device, std::optional<bool> pin_memory) {
  const at::Device where = device.value_or(at::Device(npu::kNpu));
  TORCH_CHECK_NOT_IMPLEMENTED(where.type() == npu::kNpu || where.is_meta(), op, ": device is ", where,
                              ", allowed is npu");
  return at::TensorOptions().dtype(dtype).layout(layout).device(where).pinned_memory(pin_memory);
}

// npu tensors and tensors of graphs use the generator of their device by default, so no generator is passed for them.

at::Tensor uniform(c10::SymIntArrayRef sizes, const at::TensorOptions& options) {
  const auto generator = npu::generator_of_kernel();
  return generator ? at::rand_symint(sizes, generator, options) : at::rand_symint(sizes, options);
}

at::Tensor random_integers(int64_t low, int64_t high, c10::SymIntArrayRef sizes, const at::TensorOptions& options) {
  const auto type = options.dtype(at::kLong);
  const auto generator = npu::generator_of_kernel();
  return generator ? at::randint_symint(low, high, sizes, generator, type) : at::randint_symint(low, high, sizes, type);
}

Tensor gated(const char* op, const Tensor& x, int64_t dim, const Gate& gate) {
  TORCH_CHECK(gate.mode >= 0 && gate.mode <= 2, op, ": swiglu_mode is ", gate.mode, ", allowed are 0, 1 and 2");
  const c10::SymInt size = x.sym_size(dim);
  TORCH_CHECK(size % 2 == 0, op, ": dimension ", dim, " of x has size ", size, ", which has no two halves");
  if (gate.mode == 1) {
    const Tensor pairs = x.unflatten_symint(dim, {size / 2, 2});
    const int64_t inner = at::maybe_wrap_dim(dim, x.dim()) + 1;
    const Tensor a = pairs.select(inner, 0).clamp_max(gate.limit), b = pairs.select(inner, 1);
    return a * at::sigmoid(gate.alpha * a) * (b.clamp(-gate.limit, gate.limit) + gate.bias);
  }
  const auto halves = x.chunk(2, dim);
  const Tensor& a = halves[gate.left ? 0 : 1];
  const Tensor& b = halves[gate.left ? 1 : 0];
  if (gate.mode == 0) return at::silu(a) * b;
  const Tensor cut = a.clamp_max(gate.limit);
  return cut * at::sigmoid(gate.alpha * cut) * (b.clamp(-gate.limit, gate.limit) + gate.bias);
}

}  // namespace npugraph::npu_ops
