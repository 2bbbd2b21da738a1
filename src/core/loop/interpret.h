// SPDX-License-Identifier: Apache-2.0
// Runs a kernel on host memory, one iteration after the other in the order of the text: the oracle of generated code.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "loop/kernel.h"

namespace npugraph::loop {

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
