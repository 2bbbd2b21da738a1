// SPDX-License-Identifier: Apache-2.0
#include "compiler/defect_report.h"

#include <atomic>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "ir/text.h"

namespace npugraph::compiler {

namespace {

// The directories for a report, the preferred one first.
std::vector<std::string> places(const std::string& directory) {
  std::vector<std::string> found = {directory.empty() ? "." : directory};
  std::error_code missing;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(missing);
  if (!missing) found.push_back(temporary);
  return found;
}

}  // namespace

std::string report_text(const std::string& message, const std::string& what, const std::string& text,
                        const std::string& kind, const std::string& directory) {
  static std::atomic<int> reports = 0;
  const std::string all = cat(message, "\n\n", what, ":\n\n", text, "\n");
  const std::string name = cat("npugraph-", kind, "-", ::getpid(), "-", ++reports, ".txt");
  std::string reason;
  for (const std::string& place : places(directory)) {
    try {
      const std::string path = cat(place, "/", name);
      AtomicFile file(path, "the report");
      file.write(std::as_bytes(std::span(all)));
      file.commit();
      return cat(message.substr(0, message.find('\n')), "\n", what, " is in ", path);
    } catch (const UserError& error) {
      if (reason.empty()) reason = error.what();
    }
  }
  return cat(all, reason);
}

std::string report_defect(const std::string& message, const ir::Graph& graph, const std::string& directory) {
  return report_text(message, "The graph", ir::print(graph), "report", directory);
}

}  // namespace npugraph::compiler
