// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/eager_host.h"

#include <ATen/Parallel.h>

namespace npugraph::npu {

EagerHost::EagerHost() : table_{this, at::get_num_threads(), parallel_for, set_error, [](const ng_host*, int64_t) {}} {}

void EagerHost::parallel_for(const ng_host*, int64_t begin, int64_t end, int64_t grain,
                             void (*body)(void* arg, int64_t begin, int64_t end), void* arg) {
  at::parallel_for(begin, end, grain, [&](int64_t first, int64_t last) { body(arg, first, last); });
}

void EagerHost::set_error(const ng_host* host, const char* message) {
  static_cast<EagerHost*>(host->self)->error_ = message;
}

}  // namespace npugraph::npu
