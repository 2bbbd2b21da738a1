// SPDX-License-Identifier: Apache-2.0
// What the code of a call tells the code below it, past interfaces of torch that have no room for it: that
// operators are captured, for which device a kernel runs, which rows it writes.
#pragma once

#include <optional>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/FunctionRef.h>

namespace npugraph::npu {

using RowsAnnounced =
    c10::function_ref<void(const at::Tensor& into, const c10::List<std::optional<at::Tensor>>& places)>;

struct CallRecord {
  int works_for_device = 0;              // host_limit.h, device/runtime/for_graphs.cc
  int captured = 0;                      // Captured
  int inside_launch = 0;                 // device/capture/registry.h
  c10::DeviceIndex alias_device = -1;    // OverAliases; -1: none
  const RowsAnnounced* heard = nullptr;  // HearRowWrites
};

// Of the calling thread.
extern constinit thread_local CallRecord this_call;

// Operators run while they are captured, so that their results have sizes, and run again at replays. Effects for the
// user, such as printing, are left to replays, and numbers that are drawn during the capture are not those of replays.
//
// Alive while the calling thread runs operators that are recorded in a capture.
class Captured {
 public:
  Captured() { ++this_call.captured; }
  ~Captured() { --this_call.captured; }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
};
inline bool is_captured() noexcept { return this_call.captured != 0; }

// The same; true also before an operator on `tensor` has been handed to the capture.
bool is_captured(const at::Tensor& tensor);
// Sets the function that tells whether the calling thread's current stream
// of a device is captured. Once in the process.
void set_is_capturing(bool (*is_capturing)(c10::DeviceIndex));

// A kernel over CPU aliases of npu tensors does not see on which device these are. This tells it.
// While alive, the calling thread runs such a kernel, for tensors of `device`.
class OverAliases {
 public:
  explicit OverAliases(c10::DeviceIndex device) : outer_(std::exchange(this_call.alias_device, device)) {}
  ~OverAliases() { this_call.alias_device = outer_; }
  OverAliases(const OverAliases&) = delete;
  OverAliases& operator=(const OverAliases&) = delete;

 private:
  c10::DeviceIndex outer_;
};

// Nullopt if the calling thread runs no such kernel.
inline std::optional<c10::DeviceIndex> device_of_aliases() noexcept {
  return this_call.alias_device < 0 ? std::nullopt : std::make_optional(this_call.alias_device);
}

// Writes of a few rows of a large tensor, such as a cache of keys. To undo a call, a copy of these rows is enough. The
// operators that announce their writes say so in their row (operators.h).
//
// While it is alive, `heard` is called for the rows that the calling thread announces; `heard` must live as long.
class HearRowWrites {
 public:
  explicit HearRowWrites(RowsAnnounced heard) : heard_(heard), before_(std::exchange(this_call.heard, &heard_)) {}
  ~HearRowWrites() { this_call.heard = before_; }
  HearRowWrites(const HearRowWrites&) = delete;
  HearRowWrites& operator=(const HearRowWrites&) = delete;

 private:
  RowsAnnounced heard_;
  const RowsAnnounced* const before_;
};

// Whether the calling thread's announcements are heard.
inline bool are_rows_heard() { return this_call.heard != nullptr; }

// To be called before into.index_put_(places, ...).
inline void announce_rows(const at::Tensor& into, const c10::List<std::optional<at::Tensor>>& places) {
  if (this_call.heard != nullptr) (*this_call.heard)(into, places);
}

}  // namespace npugraph::npu
