// SPDX-License-Identifier: Apache-2.0
// The registrations that make the npu device, in order.
#include "device/eager/register.h"

#include <mutex>

#include <c10/core/DeviceType.h>

#include "device/capture/generator_states.h"
#include "device/capture/registry.h"
#include "device/eager/boxed.h"
#include "device/npu/facts.h"
#include "device/npu/host_limit.h"
#include "device/npu/memory.h"
#include "device/runtime/for_graphs.h"
#include "device/runtime/pinned_memory.h"
#include "device/runtime/streams.h"

namespace npugraph::eager {

using namespace npu;

void register_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::register_privateuse1_backend("npu");  // names the key in all messages from here on
    NpuAllocator::instance().before_empty_cache([] { capture::check_host_may_allocate("empty_cache()"); });
    c10::SetAllocator(kNpu, &NpuAllocator::instance());
    guard_host_memory();
    at::setHostAllocator(kNpu, &device::pinned_allocator());
    device::register_guard();
    register_hooks();  // after the guard: torch may ask for the device at once

    static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
    register_factories(aten);
    register_special_kernels(aten);
    register_products(aten);
    register_synced_batch_norm(aten);
    register_unboxed_kernels(aten);
    register_refusals();
    // Last: these take the operators that have no kernel yet.
    for (const char* name_space : {"aten", "npu", "atb", "air"}) register_boxed_kernels(name_space);
    register_boxed_fallback();
    register_attention_choice();
    register_autocast();
    register_serialized_format();
    register_graphs();
    capture::record_generator_states();
    device::register_for_graphs();
  });
}

}  // namespace npugraph::eager
