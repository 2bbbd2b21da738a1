// SPDX-License-Identifier: Apache-2.0
// Cuts vector loops where conditions on their variable change. Each part then computes only what it needs, unmasked:
//
//   vector for i < 128 {                              vector for i < 64 {
//     %1 : i64 = index i                                %2 : f32 = load x[i + 64]
//     %2 : i64 = index 64                               store z[i] = %2
//     %3 : bool = lt %1, %2                           }
//     %4 : f32 = load x[i + 64] where %3 else %0  ->  vector for i_64 < 64 {
//     %5 : f32 = load y[i - 64] where not %3 ...        %3 : f32 = load y[i_64]
//     %6 : f32 = select %3, %4, %5                      store z[i_64 + 64] = %3
//     store z[i] = %6                                 }
//   }
#pragma once

#include "loop/kernel.h"

namespace npugraph::loop {

// Cuts vector loops of constant extent, without reductions and scans, at multiples of `lanes` into a few parts at most.
// Their conditions become constants for simplify(). True if a loop was cut. Requires and keeps verify(kernel).empty().
bool split_loops(Kernel& kernel, int64_t lanes);

}  // namespace npugraph::loop
