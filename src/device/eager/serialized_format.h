// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::eager {

// Makes files of npu tensors hold their formats, which the tensors get back when they are loaded to npu.
void register_serialized_format();

}  // namespace npugraph::eager
