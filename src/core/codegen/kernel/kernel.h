// SPDX-License-Identifier: Apache-2.0
// Kernels of the loop IR as tasks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "abi/task.h"
#include "codegen/jit/jit.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

struct KernelFrame;

// A task that runs the kernel. Its operands and scalars are those of the kernel, in order. Data pointers are read at
// every run; strides count only as scalars. Local buffers are in the workspace. A failed check makes the task fail with
// the check's message, that of the earliest iteration of the parallel loop if several fail.
// Equal kernels share their code: the text is compiled once per process and target (jit/builds.h). Thread-safe.
// `copies`: of the body of a vector loop in one iteration, if it may have so many (body.h), instead of the
// number that costs least.
ng_task make_kernel_task(const loop::Kernel& kernel, const target::Target& target, std::optional<int> copies = {});

// The code of a kernel that computes slices of an array (loop/slices.h), for callers that say where a slice goes.
class SliceCode {
 public:
  SliceCode(const loop::Kernel& kernel, const target::Target& target);
  // Computes slices [first, last). `data`: of the kernel's buffers; the result begins so that these slices lie where
  // the caller wants them. Thread-safe.
  void run(void* const* data, int64_t first, int64_t last) const;

 private:
  std::shared_ptr<const void> code_;
  void (*chunk_)(KernelFrame*, char*, int64_t, int64_t);
};

// The assembly text of a kernel, for people.
std::string kernel_assembly(const loop::Kernel& kernel, const target::Target& target);

}  // namespace npugraph::codegen
