// SPDX-License-Identifier: Apache-2.0
// Files with the facts that a user needs to report a defect of npugraph.
#pragma once

#include <string>

#include "base/error.h"
#include "ir/graph.h"

namespace npugraph::compiler {

// Writes `message` and `text`, which `what` names ("The graph"), to <directory>/npugraph-<kind>-<pid>-<n>.txt, or to
// the directory of temporary files if that fails. Returns the first line of `message` with the name of the file; if
// both fail, all of `message` with the text itself and the reason. An empty directory is the current one. Thread-safe;
// fails only for lack of memory.
std::string report_text(const std::string& message, const std::string& what, const std::string& text,
                        const std::string& kind, const std::string& directory);

// An InternalError whose message was made by report_defect().
class ReportedDefect : public InternalError {
 public:
  using InternalError::InternalError;
};

// The same as report_text() with the text of the graph as it was imported, and the kind "report".
std::string report_defect(const std::string& message, const ir::Graph& graph, const std::string& directory);

}  // namespace npugraph::compiler
