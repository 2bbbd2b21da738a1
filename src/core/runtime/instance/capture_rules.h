// SPDX-License-Identifier: Apache-2.0
// The user's options for captures and for the memory of graphs. An option that is not set never makes a graph write the
// caller's memory or overwrite results that the caller holds. The fields have the names of the options; docs/options.md
// says what each does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace npugraph::runtime {

using PoolHandle = std::pair<int64_t, int64_t>;

// Which threads may not wait for a device, take raw memory of it or free cached memory while a graph of it is captured:
// all threads, the thread that began the capture, or none.
enum class CaptureErrorMode : uint8_t { kGlobal, kThreadLocal, kRelaxed };
// UserError that lists the modes if `mode` is none of them.
CaptureErrorMode parse_capture_error_mode(const std::string& mode);

struct CaptureRules {
  std::optional<PoolHandle> use_graph_pool;
  std::optional<bool> reuse_graph_pool_in_same_fx;
  std::optional<bool> clone_input;
  std::optional<bool> clone_output;
  std::optional<int64_t> capture_limit;
  bool force_recapture = false;
  bool frozen_parameter = false;
  std::optional<CaptureErrorMode> capture_error_mode;
};

}  // namespace npugraph::runtime
