// SPDX-License-Identifier: Apache-2.0
// Kernels as EXEC_NPU_CMD (backend/bridge/torch.h) calls them: by the names of functions of Ascend's operator library,
// with all results given by the caller.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "libraries/library.h"

namespace npugraph::libraries {

// The launch of a kernel: an operator with the same arguments, and behind them one that is written for each new result.
//
//   my_ops::scaled_add(Tensor x, Tensor y, float scale) -> Tensor
//   npugraph_kernels::my_ops__scaled_add(Tensor x, Tensor y, float scale, Tensor(result0!) result0) -> ()
//
// It is a kernel in its own right, so that graphs call it as they call any other.
std::unique_ptr<const Kernel> make_launch(const Kernel& kernel);

// The kernel that a call with `count` arguments, results among them, means by `name`: "aclnnScaledAdd", where ScaledAdd
// is the name of its operator in Ascend IR, or "my_ops::scaled_add". "aclnnInplaceAdd" is also the kernel of an
// operator "add_" that writes an argument. UserError if there is none, or if there are several.
const Kernel& find_launched(std::string_view name, size_t count);

}  // namespace npugraph::libraries
