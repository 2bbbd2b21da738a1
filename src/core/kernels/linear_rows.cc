// SPDX-License-Identifier: Apache-2.0
// Built with -ffp-contract=fast: a multiplication and the addition after it may be rounded once, in every element
// alike.
#include <vector>

#include "kernels/linear.h"

namespace npugraph::kernels {
namespace {

namespace baseline {
constexpr int64_t kLanes = 4;
#include "kernels/linear_rows.inc"
}  // namespace baseline

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr int64_t kLanes = 8;
#include "kernels/linear_rows.inc"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx2,fma")
namespace avx512 {
constexpr int64_t kLanes = 16;
#include "kernels/linear_rows.inc"
}  // namespace avx512
#pragma GCC pop_options
#endif

std::vector<ProductFunctions> find_supported() {
  std::vector<ProductFunctions> supported;
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2 && __builtin_cpu_supports("avx512f")) supported.push_back(avx512::kFunctions);
  if (has_avx2) supported.push_back(avx2::kFunctions);
#endif
  supported.push_back(baseline::kFunctions);
  return supported;
}

}  // namespace

std::span<const ProductFunctions> product_functions() {
  static const std::vector<ProductFunctions> supported = find_supported();
  return supported;
}

}  // namespace npugraph::kernels
