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

#include "loop/kernel.h"

namespace npugraph::loop {

// Requires and keeps verify(kernel).empty(). Values are numbered anew, in the order of their definitions.
void simplify(Kernel& kernel);

// The parts, for tests: removes unused values, loops and stores (true if there were any), and numbers values anew.
bool remove_dead(Kernel& kernel);
void number_values(Kernel& kernel);

}  // namespace npugraph::loop
