// SPDX-License-Identifier: Apache-2.0
// The kernels of both extensions, which call them as aclnnAddCustom and aclnnSinCos.
#include <cmath>

#include <npugraph/kernel.h>

using namespace npugraph::kernel;

namespace {

constexpr int64_t kGrain = 4096;  // elements that are worth a thread

void add_custom(const Context& context, Input x, Input y, Output sum) {
  const float *a = x.data<float>(), *b = y.data<float>();
  float* to = sum.data<float>();
  context.parallel_for(sum.numel(), kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] = a[i] + b[i];
  });
}
NPUGRAPH_KERNEL("extension_ops::add_custom(Tensor x, Tensor y) -> Tensor", add_custom)

void sin_cos(const Context& context, Input x, InOut sine, InOut cosine) {
  const float* from = x.data<float>();
  float *sines = sine.data<float>(), *cosines = cosine.data<float>();
  context.parallel_for(x.numel(), kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      sines[i] = std::sin(from[i]);
      cosines[i] = std::cos(from[i]);
    }
  });
}
NPUGRAPH_KERNEL("extension_ops::sin_cos(Tensor x, Tensor(a!) sine, Tensor(b!) cosine) -> ()", sin_cos)

}  // namespace
