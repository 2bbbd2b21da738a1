// SPDX-License-Identifier: Apache-2.0
// A library that was built for another version of the task ABI.
#include "abi/library.h"

extern "C" [[gnu::visibility("default")]] const ng_library* npugraph_library() {
  static const ng_kernel kernel = {"test_ops::old(Tensor x) -> Tensor", nullptr, nullptr, 0, 0};
  static const ng_library library = {&kernel, 1, NG_TASK_ABI_VERSION - 1};
  return &library;
}
