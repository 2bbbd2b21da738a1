// SPDX-License-Identifier: Apache-2.0
// Names of generated functions for Linux's perf (tools/perf/Documentation/jit-interface.txt in the sources of Linux).
#pragma once

#include <cstddef>
#include <string_view>

namespace npugraph::codegen {

// Adds the function of `bytes` bytes at `address` to /tmp/perf-PID.map if NPUGRAPH_PERF_MAP asks for that. The file is
// only a help for people, so that it cannot be written is no error. Thread-safe.
void note_function(std::string_view name, const void* address, size_t bytes);

}  // namespace npugraph::codegen
