// SPDX-License-Identifier: Apache-2.0
// What people need to report a defect of ours.
#pragma once

#include <string>

#include "ir/graph.h"

namespace npugraph::compiler {

// Writes `message` and `text`, which is `what` ("The graph"), to <directory>/npugraph-<kind>-<pid>-<n>.txt and returns
// `message` with the name of the file; where it cannot be written, with the reason and the text itself. An empty directory is
// the current one. Thread-safe; fails for lack of memory only.
std::string report_text(const std::string& message, const std::string& what, const std::string& text,
                        const std::string& kind, const std::string& directory);

// The same with the text of the graph as it was imported, and the kind "report".
std::string report_defect(const std::string& message, const ir::Graph& graph, const std::string& directory);

}  // namespace npugraph::compiler
