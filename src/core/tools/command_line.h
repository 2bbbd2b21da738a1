// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iostream>
#include <optional>

#include <CLI/CLI.hpp>

namespace npugraph::tools {

constexpr int kUsageError = 2;

// Parses the options that `app` declares, and --version. Returns the exit code if the process must end: after --help or
// --version, or after an error, which it prints.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  app.set_version_flag("--version", app.get_name() + " " NPUGRAPH_VERSION, "print the version and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    std::cerr << app.get_name() << ": " << error.what() << "; --help lists what it takes\n";
    return kUsageError;
  }
  return std::nullopt;
}

}  // namespace npugraph::tools
