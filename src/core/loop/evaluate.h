// SPDX-License-Identifier: Apache-2.0
// Single operators on single elements, for constant folding, and the interpreter of whole kernels. README.md states
// their exact meaning. Functions of f32 are computed in f64 and those of f64 in the longest type that the host has,
// then rounded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "loop/kernel.h"

namespace npugraph::loop {

// The bits of one element of a known type, extended by zeros.
using Bits = uint64_t;

Bits constant_bits(DType dtype, Scalar number);  // of a kConstant
// The number of a kConstant with these bits; nullopt for a NaN, whose bits a text would not keep.
std::optional<Scalar> constant_number(DType dtype, Bits bits);

int64_t integer_value(DType dtype, Bits bits);  // of an integer or kBool; a u64 wraps

Bits load_bits(DType dtype, const void* data, int64_t index);
void store_bits(DType dtype, void* data, int64_t index, Bits bits);

// Computes any operator but a leaf, on arguments that type_error accepts. nullopt for an integer division by zero.
std::optional<Bits> evaluate(Op op, std::span<const DType> types, std::span<const Bits> args, DType result);

Bits identity_of(Combine combine, DType dtype);
Bits combine_bits(Combine combine, DType dtype, Bits a, Bits b);
// Whether `b` is a more extreme value than `a`: it is a NaN and `a` is none, or it is smaller (kMin) or larger (kMax).
bool is_more_extreme(Combine combine, DType dtype, Bits a, Bits b);

// Runs a kernel on host memory, one iteration after the other in the order of the text: the oracle of generated code.

struct HostBuffer {
  void* data = nullptr;
  int64_t elements = 0;
};

// `buffers` are the arguments of the kernel in order, without shared and local buffers; `scalars` are of the kernel's
// kinds. Returns the message of the first check or division that failed, empty if none did.
// InternalError if the kernel breaks a promise that kernel.h makes to generated code: an access outside of a buffer, a
// read of an element that was not written, an iteration of a parallel or vector loop that touches an element that
// another one writes, an index that overflows, a negative extent.
std::string interpret(const Kernel& kernel, std::span<const HostBuffer> buffers, std::span<const Scalar> scalars);

}  // namespace npugraph::loop
