// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/task_functions.h"

#include <utility>

#include <c10/util/Exception.h>

namespace npugraph::bridge {
namespace {

thread_local std::exception_ptr kept;

void tell(const ng_call* call, const char* message) {
  if (call->host != nullptr) call->host->set_error(call->host, message);
}

}  // namespace

ng_status report_current_exception(const ng_call* call) noexcept {
  kept = std::current_exception();
  try {
    throw;
  } catch (const c10::Error& error) {
    tell(call, error.what_without_backtrace());
  } catch (const std::exception& error) {
    tell(call, error.what());
  } catch (...) {
    tell(call, "an exception of unknown type");
  }
  return NG_ERROR;
}

void keep_exception(std::exception_ptr thrown) { kept = std::move(thrown); }

std::exception_ptr take_kept_exception() { return std::exchange(kept, nullptr); }

namespace {
thread_local const std::string* current_name = nullptr;
}

const std::string* TaskScope::current() { return current_name; }

void TaskScope::enter(const std::string& name) {
  outer_ = current_name;
  current_name = &name;
  entered_ = true;
}

void TaskScope::leave() { current_name = outer_; }

}  // namespace npugraph::bridge
