// SPDX-License-Identifier: Apache-2.0
#include "compiler/defect_report.h"

#include <atomic>
#include <span>

#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "ir/text.h"

namespace npugraph::compiler {

std::string report_text(const std::string& message, const std::string& what, const std::string& text,
                        const std::string& kind, const std::string& directory) {
  static std::atomic<int> reports = 0;
  const std::string all = cat(message, "\n\n", what, ":\n\n", text, "\n");
  try {
    const std::string name = cat("npugraph-", kind, "-", ::getpid(), "-", ++reports, ".txt");
    const std::string path = cat(directory.empty() ? "." : directory, "/", name);
    AtomicFile file(path, "the report");
    file.write(std::as_bytes(std::span(all)));
    file.commit();
    return cat(message, "\n", what, " is in ", path);
  } catch (const UserError& error) {
    return cat(all, error.what());
  }
}

std::string report_defect(const std::string& message, const ir::Graph& graph, const std::string& directory) {
  return report_text(message, "The graph", ir::print(graph), "report", directory);
}

}  // namespace npugraph::compiler
