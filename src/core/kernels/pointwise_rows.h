// SPDX-License-Identifier: Apache-2.0
// Rows of elementwise operations, made from the operation on one element.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "kernels/pointwise.h"

namespace npugraph::kernels {

// Op has `static Out apply(In...)`.
template <typename Op, typename Out, typename... In>
class PointwiseRows {
 public:
  static PointwiseOp op(std::vector<DType> inputs, DType result) { return {run, element, std::move(inputs), result}; }

 private:
  static constexpr size_t kArity = sizeof...(In);
  using Inputs = std::index_sequence_for<In...>;
  template <size_t i>
  using Input = std::tuple_element_t<i, std::tuple<In...>>;

  template <size_t... i>
  static void run_element(const std::array<const char*, kMaxWindows>& inputs, char* result, std::index_sequence<i...>) {
    *reinterpret_cast<Out*>(result) = Op::apply(*reinterpret_cast<const Input<i>*>(inputs[i])...);
  }
  static void element(const std::array<const char*, kMaxWindows>& inputs, char* result) {
    run_element(inputs, result, Inputs{});
  }

  // Computes a row in which all windows are dense, except that the inputs in the bit set `repeated` repeat one element.
  template <unsigned repeated, size_t... i>
  static void run_dense(const Row& row, std::index_sequence<i...>) {
    const std::tuple<const In*...> in{reinterpret_cast<const In*>(row.data[i])...};
    const std::tuple<In...> first{*std::get<i>(in)...};
    Out* out = reinterpret_cast<Out*>(row.data[kArity]);
    // The result may be in the memory of an input, element by element, but never shifted against it.
#pragma GCC ivdep
    for (int64_t j = 0; j < row.count; ++j) {
      out[j] = Op::apply(((repeated >> i & 1) != 0 ? std::get<i>(first) : std::get<i>(in)[j])...);
    }
  }

  template <unsigned repeated = 0>
  static bool try_dense(const Row& row, unsigned wanted) {
    if constexpr (repeated < (1u << kArity)) {
      if (wanted != repeated) return try_dense<repeated + 1>(row, wanted);
      run_dense<repeated>(row, Inputs{});
      return true;
    } else {
      return false;
    }
  }

  static void run(const Row& row) {
    constexpr std::array<int64_t, kArity> kBytes{sizeof(In)...};
    bool dense = row.strides[kArity] == static_cast<int64_t>(sizeof(Out));
    unsigned repeated = 0;
    for (size_t i = 0; i < kArity; ++i) {
      repeated |= static_cast<unsigned>(row.strides[i] == 0) << i;
      dense &= row.strides[i] == 0 || row.strides[i] == kBytes[i];
    }
    if (dense && try_dense(row, repeated)) return;
    Row at = row;
    for (int64_t j = 0; j < row.count; ++j) {
      std::array<const char*, kMaxWindows> inputs{};
      for (size_t i = 0; i < kArity; ++i) inputs[i] = at.data[i];
      run_element(inputs, at.data[kArity], Inputs{});
      for (size_t w = 0; w <= kArity; ++w) at.data[w] += at.strides[w];
    }
  }
};

}  // namespace npugraph::kernels
