// SPDX-License-Identifier: Apache-2.0
// Exceptions from the usual way in which the code that a thread asks for is made.
#pragma once

namespace npugraph::codegen {

struct BuildRules {
  bool reads_disk = true;  // reads code from disk, and keeps code there that was made
  // Only one of all processes that share the disk makes a piece of code; the others wait for it.
  bool one_builder = false;
};

// Sets the rules of this thread until the end of the scope. Those of the innermost scope apply.
class WithBuildRules {
 public:
  explicit WithBuildRules(BuildRules rules);
  ~WithBuildRules();
  WithBuildRules(const WithBuildRules&) = delete;
  WithBuildRules& operator=(const WithBuildRules&) = delete;

 private:
  const BuildRules before_;
};

const BuildRules& build_rules();

}  // namespace npugraph::codegen
