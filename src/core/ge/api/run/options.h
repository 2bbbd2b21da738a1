// SPDX-License-Identifier: Apache-2.0
// Options of the engine, of sessions and of graphs.
#pragma once

#include <map>
#include <string>

#include "ge/api/types.h"
#include "ge/import/dump.h"
#include "tensor/core_limits.h"

namespace npugraph::ge {

using OptionMap = std::map<::ge::AscendString, ::ge::AscendString>;

// What the options of a graph mean; those of its session and of the engine hold where it says nothing.
struct GraphOptions {
  CoreLimits limits;   // ge.aicoreNum
  EngineOptions dump;  // those that dump_of() reads
};

// ApiError PARAM_INVALID for a value that is not allowed.
GraphOptions parse_options(const OptionMap& options);
// The same, and adds a warning for the calling thread that names the options that have no effect in this engine.
void check_options(const OptionMap& options);
// `inner` where it says something, else `outer`.
OptionMap merged(const OptionMap& outer, OptionMap inner);

}  // namespace npugraph::ge
