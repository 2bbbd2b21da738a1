// SPDX-License-Identifier: Apache-2.0
// Launches -> Program. Memory with an address becomes an input, which is a
// whole storage; intermediates become heap buffers.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/capture/recorded_program.h"
#include "program/program.h"

namespace npugraph::capture {

// The Program, and the memory of each of its inputs.
std::pair<std::shared_ptr<const program::Program>, std::vector<ExternalMemory>> build_program(
    std::string name, std::vector<RecordedTask>& launches, const TouchedMemory& memory);

}  // namespace npugraph::capture
