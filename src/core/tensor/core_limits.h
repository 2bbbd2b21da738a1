// SPDX-License-Identifier: Apache-2.0
// How many workers a task may use, by the kind of core that an NPU would run it on. 0: any number.
#pragma once

#include <cstdint>

namespace npugraph {

struct CoreLimits {
  int32_t cube = 0;    // products, convolutions and attention
  int32_t vector = 0;  // all else
  bool operator==(const CoreLimits&) const = default;
};

}  // namespace npugraph
