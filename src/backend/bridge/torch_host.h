// SPDX-License-Identifier: Apache-2.0
// The torch process as a host of the runtime: memory from torch's CPU allocator, objects that are tensors.
//
// An object (ng_buffer::object) is always a c10::TensorImpl with one reference. Thread-safe; Python tasks take the GIL.
#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "backend/own_kernels/export.h"
#include "lower/catalog.h"
#include "passes/pass.h"
#include "program/file.h"
#include "runtime/host.h"
#include "runtime/threads/worker_pool.h"

namespace npugraph::bridge {

class TorchHost : public runtime::Host {
 public:
  NPUGRAPH_EXPORT static TorchHost& instance();

  // A tensor whose storage holds the memory. The caller of the Program gives it its shape and element type.
  void* allocate(int64_t bytes, void** data) override;
  int64_t red_zone_bytes() const override;
  void expect(const void* graph, int64_t bytes) override;
  void trim() override;
  void retain(void* object) override;
  void release(void* object) override;
  std::span<std::byte> memory_of(void* object) override;
  void* hold(void* storage) override;
  void* constant_object(const program::Constant& constant) override;
  std::function<std::shared_ptr<void>()> thread_state() override;
  std::shared_ptr<void> watch_capture(runtime::CaptureErrorMode mode) override;
  // An event of torch.profiler, as torch.profiler.record_function makes them.
  const char* name_of(Phase phase) const override;
  void* begin_range(const char* name) override;
  void end_range(void* range) override;

  std::exception_ptr take_exception() override;
  void keep_exception(std::exception_ptr thrown) override;

 private:
  TorchHost() = default;
};

// Callables of Python tasks. `python_object` is a PyObject*, called as task_makers.h says; the table, and every task
// built from it, owns a reference. Ids are never reused. Both take the GIL.
int32_t register_callable(void* python_object);
void unregister_callable(int32_t id);

// Metadata that a saved Program with ATen tasks must have to run in this process: the version of torch.
program::Metadata torch_facts();

// Answers from torch's dispatcher.
const lower::OperatorCatalog& aten_catalog();
// Runs one node on constants, on the CPU, with gradients off.
passes::ConstantEvaluator constant_evaluator();

// The threads on which torch's operators run: the OpenMP threads of the loaded torch; empty if torch was built without
// OpenMP. Each calling thread has a team of its own, as in torch.
runtime::Team torch_team();

}  // namespace npugraph::bridge
