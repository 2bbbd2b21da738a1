// SPDX-License-Identifier: Apache-2.0
// Operators that write a few rows of a large tensor, such as a cache of keys: who is to undo their calls needs these rows, and
// not a copy of the tensor.
#pragma once

#include <initializer_list>
#include <string>

#include <ATen/ATen.h>
#include <c10/util/FunctionRef.h>

namespace npugraph::npu {

// Says that all that operator `op` ("npu::npu_scatter_pa_kv_cache") writes of these arguments it announces first. To be called
// before the operator is.
void declare_row_writes(const std::string& op, std::initializer_list<std::string> arguments);
// Whether that was said.
bool announces_rows(const std::string& op, const std::string& argument);

using RowsAnnounced =
    c10::function_ref<void(const at::Tensor& into, const c10::List<std::optional<at::Tensor>>& places)>;

// While it lives, `heard` is called for what the calling thread announces; it is alive as long.
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

// into.index_put_(places, ...) comes next.
void announce_rows(const at::Tensor& into, const c10::List<std::optional<at::Tensor>>& places);

}  // namespace npugraph::npu
