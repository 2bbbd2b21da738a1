// SPDX-License-Identifier: Apache-2.0
// What people need to report a defect of ours.
#pragma once

#include <string>

#include "ir/graph.h"

namespace npugraph::compiler {

// Writes `message` and the text of `graph` to <directory>/npugraph-report-<pid>-<n>.txt and returns `message` with the name
// of the file; where it cannot be written, with the reason and the text itself. An empty directory is the current one.
// Thread-safe; fails for lack of memory only.
std::string report_defect(const std::string& message, const ir::Graph& graph, const std::string& directory);

}  // namespace npugraph::compiler
