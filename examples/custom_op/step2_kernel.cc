// SPDX-License-Identifier: Apache-2.0
// Step 2: the kernels. Each is a C++ function, registered under the schema of step 1. Its parameters are the arguments
// of the schema in order, and then the results. `bash build.sh` builds the library.
#include <npugraph/kernel.h>

using namespace npugraph::kernel;

namespace {

// to = x + scale * y, element by element. `to` may be `x`.
void add(const Context& context, const float* x, const float* y, double scale, float* to, int64_t count) {
  const auto factor = static_cast<float>(scale);
  context.parallel_for(count, 16384, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] = x[i] + factor * y[i];
  });
}

void check(int64_t of_x, int64_t of_y) {
  if (of_x != of_y) throw std::invalid_argument("x and y have to have the same sizes");
}

void scaled_add(const Context& context, Input x, Input y, double scale, Output result) {
  check(x.numel(), y.numel());
  add(context, x.data<float>(), y.data<float>(), scale, result.data<float>(), x.numel());
}
NPUGRAPH_KERNEL("tutorial::scaled_add(Tensor x, Tensor y, float scale) -> Tensor", scaled_add)

void scaled_add_(const Context& context, InOut x, Input y, double scale) {
  check(x.numel(), y.numel());
  add(context, x.data<float>(), y.data<float>(), scale, x.data<float>(), x.numel());
}
NPUGRAPH_KERNEL("tutorial::scaled_add_(Tensor(a!) x, Tensor y, float scale) -> ()", scaled_add_)

}  // namespace
