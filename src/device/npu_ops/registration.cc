// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/registration.h"

#include <mutex>

#include "device/npu_ops/exchange/rank_exchange.h"
#include "device/npu_ops/families.h"

namespace npugraph::npu_ops {

void register_operators() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_process_group_class();
    register_rank_exchange();
    static auto* library = new OperatorLibrary;
#define NPUGRAPH_DEFINE(family) define_##family(*library);
    NPUGRAPH_FAMILIES(NPUGRAPH_DEFINE)
#undef NPUGRAPH_DEFINE
  });
}

}  // namespace npugraph::npu_ops
