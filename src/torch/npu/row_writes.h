// SPDX-License-Identifier: Apache-2.0
// Writes of a few rows of a large tensor, such as a cache of keys. To undo a call, a copy of these rows is enough. The
// operators that announce their writes say so in their row (operators.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include "torch/npu/export.h"

namespace npugraph::npu {

using RowsAnnounced =
    c10::function_ref<void(const at::Tensor& into, const c10::List<std::optional<at::Tensor>>& places)>;

// While it is alive, `heard` is called for the rows that the calling thread announces; `heard` must live as long.
class HearRowWrites {
 public:
  explicit HearRowWrites(RowsAnnounced heard);
  ~HearRowWrites();
  HearRowWrites(const HearRowWrites&) = delete;
  HearRowWrites& operator=(const HearRowWrites&) = delete;

 private:
  RowsAnnounced heard_;
  const RowsAnnounced* const before_;
};

// Whether the calling thread's announcements are heard.
NPUGRAPH_EXPORT bool are_rows_heard();

// To be called before into.index_put_(places, ...).
NPUGRAPH_EXPORT void announce_rows(const at::Tensor& into, const c10::List<std::optional<at::Tensor>>& places);

}  // namespace npugraph::npu
