// SPDX-License-Identifier: Apache-2.0
// What the code of a call tells the code below it, past interfaces of torch that have no room for it. The code of the
// files named here reads and writes it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/FunctionRef.h>

namespace npugraph::npu {

using RowsAnnounced =
    c10::function_ref<void(const at::Tensor& into, const c10::List<std::optional<at::Tensor>>& places)>;

struct CallRecord {
  int works_for_device = 0;              // host_limit.h, device/runtime/for_graphs.cc
  int captured = 0;                      // captured.h
  int inside_launch = 0;                 // device/capture/registry.h
  c10::DeviceIndex alias_device = -1;    // over_aliases.h; -1: none
  const RowsAnnounced* heard = nullptr;  // row_writes.h
};

// Of the calling thread.
extern constinit thread_local CallRecord this_call;

}  // namespace npugraph::npu
