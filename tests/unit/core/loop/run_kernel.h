// SPDX-License-Identifier: Apache-2.0
// Runs kernels in the interpreter, on vectors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loop/interpret.h"
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

}  // namespace npugraph::loop::testing
