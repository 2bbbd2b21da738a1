// SPDX-License-Identifier: Apache-2.0
// Text form of a Program. Round-trips, constants' bytes excepted: those travel beside it (program/file.h).
//
//   npugraph.program 4 @forward {
//     symbol s0 : int [2, inf] = size(0, 1)                  // size 1 of input 0; = input(3); = offset(0); = task(7)
//     buffer b0 "x" input(0) bytes(16*s0) live(0, 0)         // the name may be left out
//     buffer b1 arena bytes(1024) live(0, 4)                 // also parameter(0), constant(0), output, heap
//     buffer b2 heap opaque live(1, 2)                       // also preallocated, device("npu", 0)
//     constant c0 "name" : i64[3]{1} derived bytes(24)
//     input 0 "L['x']" b0 : f32[4, s0]{s0, 1} at(8) mutated  // at: Input::storage_offset
//     input 1 "L['n']" scalar
//     require eq(0, mod(s0, 4))                              // Program::conditions
//     task 0 aten "aten.mm.out" stream(1) {                  // kernel, aten, python; waits(0, 2) limits(1, 2)
//     callable(3)
//       read b0+0 : f32[4, s0]{s0, 1}                        // buffer and offset in bytes; write, readwrite
//       write copied b1+0 : f32[4, 64]{64, 1}              // copied: what is written was only moved
//       args(%0, [%0, none], 4*s0, "text") results(1, none)  // %1 is operand 1
//       schema "aten::mm.out(...)"
//       defines(u0 = size(1, 0), u1 = result(2))             // u0: size of operand 1 in dimension 0; u1: return 2, a
//       scalar
//       may_share(1 = 0)                                     // operand 1 may take the memory of operand 0
//       origin "mm" source "model.py:12 in forward" reason "..." releases(b5)
//     }
//     segment 5
//     output tensor b3+0 : f32[4, 64]{64, 1}
//     output input 0
//     output scalar 4*s0 : int
//     output none
//   }
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace npugraph::program {

std::string print(const Program& program);
// "loop.mul.exp aten.cat.out*": the names of the tasks, with a "*" behind each task that has a copied operand.
std::string print_task_names(const Program& program);
// UserError with line and column on malformed text. The result is verified.
Program parse(std::string_view text, std::string source_name);

}  // namespace npugraph::program
