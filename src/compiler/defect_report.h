// SPDX-License-Identifier: Apache-2.0
// What people need to report a defect of ours.
#pragma once

#include <string>

#include "base/error.h"
#include "ir/graph.h"

namespace npugraph::compiler {

// Writes `message` and `text`, which is `what` ("The graph"), to <directory>/npugraph-<kind>-<pid>-<n>.txt, or where that cannot
// be written into the directory of temporary files. Returns the first line of `message` with the name of the file; where neither
// can be written, all of `message` with the reason and the text itself. An empty directory is the current one. Thread-safe;
// fails for lack of memory only.
std::string report_text(const std::string& message, const std::string& what, const std::string& text,
                        const std::string& kind, const std::string& directory);

// An InternalError whose message came from here.
class ReportedDefect : public InternalError {
 public:
  using InternalError::InternalError;
};

// The same as report_text() with the text of the graph as it was imported, and the kind "report".
std::string report_defect(const std::string& message, const ir::Graph& graph, const std::string& directory);

}  // namespace npugraph::compiler
