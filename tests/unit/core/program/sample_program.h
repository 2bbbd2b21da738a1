// SPDX-License-Identifier: Apache-2.0
// One small Program in which every feature of the text form occurs.
#pragma once

#include <string_view>

namespace npugraph::program::testing {

inline constexpr std::string_view kSampleProgram = R"(npugraph.program 4 @forward {
  symbol s0 : int [2, 1024] = size(0, 1)
  symbol n : float = input(1)
  symbol u0 : int = task(1)
  symbol flag : bool = task(1)
  buffer b0 "x" input(0) bytes(16*s0) live(0, 1)
  buffer b1 "weight" parameter(2) bytes(24)
  buffer b2 "table" constant(0) bytes(24) live(0, 0)
  buffer b3 "t" arena bytes(16*s0) live(0, 1)
  buffer b4 "found" heap live(1, 2)
  buffer b5 "late" heap preallocated bytes(8*u0) live(2, 3)
  buffer b6 "y" output device("npu", 1) bytes(64) live(3, 3)
  buffer b7 heap opaque live(2, 3)
  constant c0 "table" : i64[3]{1} derived bytes(24)
  input 0 "L['x']" b0 : f32[4, s0]{s0, 1} at(s0 + 8) mutated
  input 1 "L['n']" scalar
  input 2 "L['self'].weight" b1 : f32[2, 3]{3, 1}
  require eq(0, mod(s0, 2))
  task 0 kernel "kernel.scale" {
    read b0+0 : f32[4, s0]{s0, 1}
    read b2+8 : i64[2]{1}
    write copied b3+0 : f32[4, s0]{s0, 1}
    args(%0, %1, n, [%0, none], [4, s0], none, true, "a \"quoted\" text", bf16) results(2) may_share(2 = 0)
    origin "mul" source "model.py:3 in forward"
  }
  task 1 aten "aten.nonzero" foreign {
    read b3+0 : f32[4, s0]{s0, 1}
    write b4+0 : i64[u0, 2]{2, 1}
    readwrite b0+8*s0 : f32[2, s0]{s0, 1}
    args(%0) results(1, none) defines(u0 = size(1, 0), flag = result(1))
    schema "aten::nonzero(Tensor self) -> Tensor"
    reason "its result has a size that depends on data"
  }
  task 2 python "python.call" stream(1) waits(1) callable(7) {
    read b4+0 : i64[u0, 2]{2, 1}
    write b5+0 : f32[2*u0]{1}
    write b7+0 : f32[]{}
    args(%0, flag) results(1, 2)
    releases(b4)
  }
  task 3 kernel "kernel.copy" waits(2) limits(0, 1) {
    read b5+0 : f32[u0]{1}
    read b7+0 : f32[]{}
    write b6+0 : f32[16]{1}
    args(%0) results(2)
    releases(b5, b7)
  }
  segment 2
  segment 4
  output tensor b6+0 : f32[4, 4]{4, 1}
  output tensor b0+0 : f32[2, s0]{s0, 1}
  output input 0
  output scalar 4*s0 + u0 : int
  output scalar 1.5 : float
  output none
}
)";

}  // namespace npugraph::program::testing
