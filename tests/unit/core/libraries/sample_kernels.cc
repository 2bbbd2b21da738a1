// SPDX-License-Identifier: Apache-2.0
// A library of kernels as a user writes it.
#include "abi/kernel.h"

using namespace npugraph::kernel;

namespace {

void scaled_add(const Context& context, Input x, Input y, double scale, Output result) {
  const float *a = x.data<float>(), *b = y.data<float>();
  float* to = result.data<float>();
  context.parallel_for(result.numel(), 2, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] = a[i] + static_cast<float>(scale) * b[i];
  });
}
NPUGRAPH_KERNEL("test_ops::scaled_add(Tensor x, Tensor y, float scale) -> Tensor", scaled_add)

void scale_(InOut x, double factor) {
  float* values = x.data<float>();
  for (int64_t i = 0; i < x.numel(); ++i) values[i] *= static_cast<float>(factor);
}
NPUGRAPH_KERNEL("test_ops::scale_(Tensor(a!) x, Scalar factor) -> ()", scale_)

void scale_all_(List<InOut> xs, double factor) {
  for (const InOut& x : xs) scale_(x, factor);
}
NPUGRAPH_KERNEL("test_ops::scale_all_(Tensor(a!)[] xs, Scalar factor) -> ()", scale_all_)

// The sum of all numbers that it is given, and of the first elements of all tensors; how many arguments are there.
void everything(Input x, std::optional<Input> y, List<Input> list, int64_t number, List<int64_t> numbers,
                std::optional<double> fraction, bool flag, std::string_view text, ng_dtype dtype, Output sum,
                Output count) {
  double total = x.data<float>()[0] + static_cast<double>(number) + fraction.value_or(0) + (flag ? 1 : 0);
  for (const int64_t each : numbers) total += static_cast<double>(each);
  for (const Input& each : list) total += each.data<float>()[0];
  if (y) total += y->data<float>()[0];
  total += static_cast<double>(text.size()) + static_cast<int>(dtype);
  sum.data<float>()[0] = static_cast<float>(total);
  count.data<int64_t>()[0] = 9;
}
NPUGRAPH_KERNEL(
    "test_ops::everything(Tensor x, Tensor? y, Tensor[] list, int number, SymInt[] numbers, float? fraction, bool "
    "flag, "
    "str text, ScalarType dtype) -> (Tensor sum, Tensor count)",
    everything)

// The strides of x.
void strides(StridedInput x, Output result) {
  for (int64_t d = 0; d < x.rank(); ++d) result.data<int64_t>()[d] = x.stride(d);
}
NPUGRAPH_KERNEL("test_ops::strides(Tensor x) -> Tensor", strides)

// The reverse of x, by way of the workspace.
void reversed(const Context& context, Input x, Output result) {
  auto* kept = static_cast<float*>(context.workspace());
  const int64_t count = x.numel();
  std::copy_n(x.data<float>(), count, kept);
  std::reverse_copy(kept, kept + count, result.data<float>());
}
int64_t reversed_workspace(Input x, Output) { return x.numel() * 4; }
NPUGRAPH_KERNEL("test_ops::reversed(Tensor x) -> Tensor", reversed, reversed_workspace)

void fails_inside(const Context& context, Input x, Output) {
  context.parallel_for(x.numel(), 1, [](int64_t, int64_t) { throw std::runtime_error("no element of x fits"); });
}
NPUGRAPH_KERNEL("test_ops::fails_inside(Tensor x) -> Tensor", fails_inside)

// What no kernel may do: it writes what its schema does not mark, and beyond its result.
void writes_its_input(Input x, Output result) {
  std::copy_n(x.data<float>(), x.numel(), result.data<float>());
  *const_cast<float*>(x.data<float>()) += 1;
}
NPUGRAPH_KERNEL("test_ops::writes_its_input(Tensor x) -> Tensor", writes_its_input)

void writes_beyond(Input x, Output result) {
  std::copy_n(x.data<float>(), x.numel(), result.data<float>());
  result.data<float>()[x.numel()] = 0;
}
NPUGRAPH_KERNEL("test_ops::writes_beyond(Tensor x) -> Tensor", writes_beyond)

void reads_integers(Input x, Output) { x.data<int64_t>(); }
NPUGRAPH_KERNEL("test_ops::reads_integers(Tensor x) -> Tensor", reads_integers)

}  // namespace
