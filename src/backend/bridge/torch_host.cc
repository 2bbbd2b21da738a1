// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/torch_host.h"

#include <cstddef>
#include <memory>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>
#include <dlfcn.h>
#include <torch/version.h>

#include "backend/bridge/host_device.h"
#include "backend/bridge/spare_memory.h"
#include "backend/bridge/task_functions.h"
#include "base/env.h"
#include "base/error.h"
#include "runtime/memory/red_zones.h"

namespace npugraph::bridge {
namespace {

// `block` without `zone` bytes at either end.
c10::DataPtr without_ends(c10::DataPtr block, int64_t zone) {
  auto owner = std::make_unique<c10::DataPtr>(std::move(block));
  void* const data = static_cast<std::byte*>(owner->get()) + zone;
  const auto free = [](void* context) { delete static_cast<c10::DataPtr*>(context); };
  return {data, owner.release(), free, c10::Device(c10::DeviceType::CPU)};
}

}  // namespace

TorchHost& TorchHost::instance() {
  static auto* host = new TorchHost;  // tasks may outlive static destruction
  return *host;
}

int64_t TorchHost::red_zone_bytes() const { return environment().red_zones ? runtime::RedZones::kBytes : 0; }

void* TorchHost::allocate(int64_t bytes, void** data) {
  const int64_t zone = red_zone_bytes();
  c10::DataPtr memory = SpareMemory::instance().allocate(static_cast<size_t>(bytes + 2 * zone));
  if (zone > 0) memory = without_ends(std::move(memory), zone);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(memory),
                                                       c10::GetCPUAllocator(), true);
  *data = storage->mutable_data();
  return c10::make_intrusive<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                              c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              caffe2::TypeMeta::Make<uint8_t>())
      .release();
}

void TorchHost::expect(const void* graph, int64_t bytes) {
  SpareMemory::instance().expect(graph, static_cast<size_t>(bytes));
}

void TorchHost::trim() { SpareMemory::instance().trim(); }

void TorchHost::retain(void* object) {
  c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(static_cast<c10::TensorImpl*>(object)).release();
}

void TorchHost::release(void* object) {
  c10::intrusive_ptr<c10::TensorImpl>::reclaim(static_cast<c10::TensorImpl*>(object)).reset();
}

std::span<std::byte> TorchHost::memory_of(void* object) {
  c10::StorageImpl& storage = *static_cast<c10::TensorImpl*>(object)->unsafe_storage().unsafeGetStorageImpl();
  return {static_cast<std::byte*>(storage._mutable_data_ptr_no_checks().get()), storage.nbytes()};
}

void* TorchHost::hold(void* storage) {
  auto owned = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(static_cast<c10::StorageImpl*>(storage));
  return c10::make_intrusive<c10::TensorImpl>(c10::Storage(std::move(owned)),
                                              c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              caffe2::TypeMeta::Make<uint8_t>())
      .release();
}

void* TorchHost::constant_object(const program::Constant& constant) { return constant.owner.get(); }

std::function<std::shared_ptr<void>()> TorchHost::thread_state() {
  const HostDevice* device = host_device();
  return device == nullptr ? std::function<std::shared_ptr<void>()>() : device->thread_state();
}

std::shared_ptr<void> TorchHost::watch_capture(runtime::CaptureErrorMode mode) {
  const HostDevice* device = host_device();
  return device == nullptr ? nullptr : device->watch_capture(mode);
}

// The names in Ascend's documents.
const char* TorchHost::name_of(Phase phase) const {
  switch (phase) {
    case Phase::kCapture: return "acl_graph_capture";
    case Phase::kWarmUp: return "acl_graph_warm_up";
    case Phase::kReplay: return "acl_graph_replay";
    case Phase::kEager: return "fx_run_eagerly";
  }
  return "";
}

void* TorchHost::begin_range(const char* name) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) return nullptr;
  auto range = std::make_unique<at::RecordFunction>(std::move(*callbacks));
  range->before(name);
  return range.release();
}

void TorchHost::end_range(void* range) { delete static_cast<at::RecordFunction*>(range); }

program::Metadata torch_facts() { return {{"torch", TORCH_VERSION}}; }

std::exception_ptr TorchHost::take_exception() { return take_kept_exception(); }

void TorchHost::keep_exception(std::exception_ptr thrown) { bridge::keep_exception(std::move(thrown)); }

namespace {

// Entry points that GNU's and LLVM's OpenMP share. They are looked up, not linked: a second OpenMP in the process would
// bring the second pool of threads that this is to avoid.
using GompParallel = void (*)(void (*body)(void*), void* arg, unsigned threads, unsigned flags);
using ThreadNumber = int (*)();
using PauseAll = int (*)(int kind);
constexpr int kPauseSoft = 1;  // omp_pause_soft

GompParallel gomp_parallel() {
  static const auto found = reinterpret_cast<GompParallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  return found;
}

ThreadNumber thread_number() {
  static const auto found = reinterpret_cast<ThreadNumber>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
  return found;
}

ThreadNumber thread_count() {
  static const auto found = reinterpret_cast<ThreadNumber>(dlsym(RTLD_DEFAULT, "omp_get_num_threads"));
  return found;
}

// Null for LLVM's OpenMP, which mends its teams in the child itself, and may hold its locks when a fork is prepared.
PauseAll pause_all() {
  static const auto found = dlsym(RTLD_DEFAULT, "__kmpc_fork_call") != nullptr
                                ? nullptr
                                : reinterpret_cast<PauseAll>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all"));
  return found;
}

}  // namespace

runtime::Team torch_team() {
#if AT_PARALLEL_OPENMP
  if (gomp_parallel() != nullptr && thread_number() != nullptr && thread_count() != nullptr) {
    return {[](void (*body)(void*), void* arg, uint32_t threads) { gomp_parallel()(body, arg, threads, 0); },
            [] { return thread_number()(); }, [] { return thread_count()(); },
            [] { return pause_all() != nullptr && pause_all()(kPauseSoft) == 0; }};
  }
#endif
  return {};
}

}  // namespace npugraph::bridge
