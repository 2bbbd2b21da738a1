// SPDX-License-Identifier: Apache-2.0
// How the code that a thread asks for is made, other than usually.
#pragma once

namespace npugraph::codegen {

struct BuildRules {
  bool reads_disk = true;  // and keeps there what was made
  bool one_builder =
      false;  // of all processes that share the disk, one makes a piece of code, and the others wait for it
};

// In this thread, until the end of the scope; the innermost counts.
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
