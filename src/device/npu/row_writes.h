// SPDX-License-Identifier: Apache-2.0
// Writes of a few rows of a large tensor, such as a cache of keys. To undo a call, a copy of these rows is enough. The
// operators that announce their writes say so in their row (operators.h).
#pragma once

#include <utility>

#include "device/npu/call_record.h"

namespace npugraph::npu {

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
