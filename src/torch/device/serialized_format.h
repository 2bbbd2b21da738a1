// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::device {

// Files of npu tensors hold their formats, which tensors get back that are loaded to npu.
void register_serialized_format();

}  // namespace npugraph::device
