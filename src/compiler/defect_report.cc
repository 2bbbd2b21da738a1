// SPDX-License-Identifier: Apache-2.0
#include "compiler/defect_report.h"

#include <atomic>
#include <span>

#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "ir/text.h"

namespace npugraph::compiler {

std::string report_defect(const std::string& message, const ir::Graph& graph, const std::string& directory) {
  static std::atomic<int> reports = 0;
  const std::string text = cat(message, "\n\nThe graph as it was imported:\n\n", ir::print(graph), "\n");
  try {
    const std::string name = cat("npugraph-report-", ::getpid(), "-", ++reports, ".txt");
    const std::string path = cat(directory.empty() ? "." : directory, "/", name);
    AtomicFile file(path, "the report");
    file.write(std::as_bytes(std::span(text)));
    file.commit();
    return cat(message, "\nThe graph is in ", path);
  } catch (const UserError& error) {
    return cat(text, error.what());
  }
}

}  // namespace npugraph::compiler
