// SPDX-License-Identifier: Apache-2.0
// Options of the engine, of sessions and of graphs, as the API takes them.
#pragma once

#include <map>

#include "ge/api/types.h"
#include "ge/engine/options.h"

namespace npugraph::ge {

using OptionMap = std::map<::ge::AscendString, ::ge::AscendString>;

// ApiError PARAM_INVALID for a value that is not allowed.
EngineOptions parse_options(const OptionMap& options);
// The same, and adds a warning for the calling thread that names the options that have no effect in this engine.
void check_options(const OptionMap& options);
// `inner` where it says something, else `outer`.
OptionMap merged(const OptionMap& outer, OptionMap inner);

}  // namespace npugraph::ge
