// SPDX-License-Identifier: Apache-2.0
// Runs kernels in the interpreter, on vectors, and kernels in text form that the tests of this directory share. Each of
// them prints as it is written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loop/evaluate.h"
#include "loop/text.h"

namespace npugraph::loop::testing {

template <typename T>
HostBuffer host(std::vector<T>& elements) {
  return {elements.data(), static_cast<int64_t>(elements.size())};
}

// Runs a kernel in text form.
inline std::string run(std::string_view text, std::vector<HostBuffer> buffers, std::vector<Scalar> scalars = {}) {
  return interpret(parse(text, "test"), buffers, scalars);
}

// A kernel with every statement and every clause.
inline constexpr std::string_view kEverything = R"(npugraph.loop 1 @everything {
  scalar m : int
  scalar n : int
  scalar eps : float
  scalar flag : bool
  in x : bf16
  in at : i32
  out y : f32
  inout z : i64
  local t : f32[n + 16]
  %0 : f64 = scalar eps
  %1 : f64 = scalar flag
  parallel for i < m grain 8 {
    %2 : i32 = load at[i]
    %3 : i32 = constant -5
    %4 : bool = gt %2, %3
    check %4, "index % is out of range", %2
    check %4, "no value is shown"
    vector for j < n scan(%5 : f32 = sum %8, %6 : f32 = max %5) {
      %7 : bf16 = load x[i*n + j] ahead
      %8 : f32 = cast %7
      %9 : f32 = constant -inf
      %10 : f32 = load t[v2 + max(3, j)] where %4 else %9
      store t[j] = %5
      store t[j] = %6 where %4 streaming
      store y[i*n + j] = %10 streaming
      unrolled for u < 4 {
        %11 : i64 = index i + u
        store z[u] = %11 where %4
      }
    } reduce(%12 : f32 = sum %8, %13 : f32 at %14 = max %8)
    for k < i + 1 {
      %15 : f32 = select %4, %12, %13
      store y[k] = %15
    }
  }
}
)";

}  // namespace npugraph::loop::testing
