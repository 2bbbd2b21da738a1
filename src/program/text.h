// SPDX-License-Identifier: Apache-2.0
// Text form of a Program. Round-trips, constants' bytes excepted: those travel beside it (program/file.h).
//
//   npugraph.program 1 @forward {
//     symbol s0 : int = size(0, 1)                        // size 1 of input 0; = input(3); = task(7)
//     buffer b0 input(0)                                   // bytes follow from the input
//     buffer b1 arena bytes(256*s0) live(0, 4)
//     constant c0 "name" : i64[3]{1} derived bytes(24)
//     input 0 "L['x']" b0 : f32[4, s0]{s0, 1} mutated
//     task 0 aten "aten.mm.out" stream(0) {
//       read b0+0 : f32[4, s0]{s0, 1}
//       write b1+0 : f32[4, 64]{64, 1}
//       args(%0, %2)  results(1)  schema "aten::mm.out(...)"
//       origin "mm" source "model.py:12 in forward" reason "..." releases(b5)
//     }
//     segment 5
//     output tensor b3+0 : f32[4, 64]{64, 1}
//     output input 0
//     output scalar 4*s0 : int
//   }
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace npugraph::program {

std::string print(const Program& program);
// UserError with line and column on malformed text. The result is verified.
Program parse(std::string_view text, std::string source_name);

}  // namespace npugraph::program
