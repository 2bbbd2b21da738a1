// SPDX-License-Identifier: Apache-2.0
#include "codegen/task/slots.h"

#include <thread>

namespace npugraph::codegen {

int most_slots() {
  static const int slots = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64);
  return slots;
}

}  // namespace npugraph::codegen
