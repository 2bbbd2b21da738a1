// SPDX-License-Identifier: Apache-2.0
// What the user asked of captures and of the memory of graphs. What he did not ask for is done so that nothing of the caller's is
// written and nothing that he holds is overwritten. The fields have the names of the options; docs/options.md says what each does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace npugraph::runtime {

using PoolHandle = std::pair<int64_t, int64_t>;

struct CaptureRules {
  std::optional<PoolHandle> use_graph_pool;
  std::optional<bool> reuse_graph_pool_in_same_fx;
  std::optional<bool> clone_input;
  std::optional<bool> clone_output;
  std::optional<int64_t> capture_limit;
  bool force_recapture = false;
  bool frozen_parameter = false;
  // capture_error_mode: called at the start of each call that captures a graph over memory of a device; what it gives goes when the
  // call has run. Null: nobody is told.
  std::shared_ptr<void> (*watch_capture)() = nullptr;
};

}  // namespace npugraph::runtime
