// SPDX-License-Identifier: Apache-2.0
// Options of the engine by their names in GE. dump_of() reads those of dumps (import/dump.h).
//
// All functions raise UserError for a value that is not allowed.
#pragma once

#include <set>
#include <string_view>

#include "compiler/request.h"
#include "ge/import/dump.h"
#include "tensor/core_limits.h"

namespace npugraph::ge {

// Those that have an effect.
const std::set<std::string_view>& acting_options();
// Checks the values of all of them.
void check_options(const EngineOptions& options);

// ge.aicoreNum: the most cores of each kind.
CoreLimits core_limits(const EngineOptions& options);
// ge.oo.level and ge.oo.deadCodeElimination: which passes run, and whether a task may be of several operators. Level O1
// leaves all out that makes one operator of several; O3 is the default.
void apply_levels(const EngineOptions& options, compiler::CompileRequest& request);

}  // namespace npugraph::ge
