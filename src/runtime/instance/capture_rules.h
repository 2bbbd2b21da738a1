// SPDX-License-Identifier: Apache-2.0
// The user's options for captures and for the memory of graphs. An option that is not set never makes a graph write the
// caller's memory or overwrite results that the caller holds. The fields have the names of the options; docs/options.md
// says what each does.
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
  // capture_error_mode: called at the start of each call that captures a graph over memory of a device; the object that
  // it returns is destroyed when the call has run. Null if the option is not set.
  std::shared_ptr<void> (*watch_capture)() = nullptr;
};

}  // namespace npugraph::runtime
