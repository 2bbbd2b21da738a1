// SPDX-License-Identifier: Apache-2.0
#include "device/npu/call_record.h"

namespace npugraph::npu {

constinit thread_local CallRecord this_call;

}  // namespace npugraph::npu
