// SPDX-License-Identifier: Apache-2.0
// Makes a kernel shorter without changing what it computes, bit by bit:
//   %1 : f32 = constant 2.0                       %1 : f32 = constant 4.0
//   %2 : f32 = mul %1, %1                         for i < n {
//   for i < n {                              ->     %3 : f32 = load x[i]
//     %3 : f32 = load x[floordiv(4*i + 3, 4)]       %4 : f32 = mul %3, %1
//     %4 : f32 = load x[i]                          ...
//     %5 : f32 = mul %4, %2
// It folds constants, drops what does nothing (x * 1, casts to the same type or back from an exact one, masks and
// checks that always hold), simplifies index expressions by the ranges of loops, merges equal values of a block, moves
// values that do not depend on a loop in front of it, unrolls loops of one iteration into their place, removes unused
// values and loops, and stores to shared and local buffers that are never read. Roundings and the sign of zeros stay: a
// narrowing cast is never removed, x + 0.0 stays.
#pragma once

#include <optional>
#include <span>

#include "loop/kernel.h"

namespace npugraph::loop {

// Requires and keeps verify(kernel).empty(). Values are numbered anew, in the order of their definitions.
void simplify(Kernel& kernel);

// The parts, for tests: removes unused values, loops and stores (true if there were any), and numbers values anew.
bool remove_dead(Kernel& kernel);
void number_values(Kernel& kernel);

// A kernel for one set of sizes:
//   scalar n                               scalar n
//   for i < n {                    ->      for i < 64 {
//     %1 : f32 = load x[i*n]                 %1 : f32 = load x[64*i]

// The kernel with these values in place of its integer scalars, which stay arguments; a scalar without a value stays as
// it is. The results are the same, except that a sum may be taken in the order of a kernel with constant sizes.
// Requires and keeps verify(kernel).empty().
Kernel specialised(Kernel kernel, std::span<const std::optional<int64_t>> values);

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

// Cuts vector loops of constant extent, without reductions and scans, at multiples of `lanes` into a few parts at most.
// Their conditions become constants for simplify(). True if a loop was cut. Requires and keeps verify(kernel).empty().
bool split_loops(Kernel& kernel, int64_t lanes);

}  // namespace npugraph::loop
