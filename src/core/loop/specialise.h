// SPDX-License-Identifier: Apache-2.0
// A kernel for one set of sizes:
//   scalar n                               scalar n
//   for i < n {                    ->      for i < 64 {
//     %1 : f32 = load x[i*n]                 %1 : f32 = load x[64*i]
#pragma once

#include <optional>
#include <span>

#include "loop/kernel.h"

namespace npugraph::loop {

// The kernel with these values in place of its integer scalars, which stay arguments; a scalar without a value stays as
// it is. The results are the same, except that a sum may be taken in the order of a kernel with constant sizes.
// Requires and keeps verify(kernel).empty().
Kernel specialised(Kernel kernel, std::span<const std::optional<int64_t>> values);

}  // namespace npugraph::loop
