// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/api_error.h"

#include <exception>
#include <new>

namespace npugraph::ge {
namespace {

struct Messages {
  std::string error;
  std::string warnings;
};

Messages& of_this_thread() {
  thread_local Messages messages;
  return messages;
}

}  // namespace

void set_error_message(std::string message) { of_this_thread().error = std::move(message); }

void add_warning(std::string message) {
  std::string& all = of_this_thread().warnings;
  all += (all.empty() ? "" : "\n") + message;
}

std::string take_error_message() { return std::exchange(of_this_thread().error, {}); }
std::string take_warnings() { return std::exchange(of_this_thread().warnings, {}); }

std::pair<::ge::Status, std::string> current_failure() {
  try {
    throw;
  } catch (const ApiError& error) {
    return {error.status, error.what()};
  } catch (const UserError& error) {
    return {::ge::PARAM_INVALID, error.what()};
  } catch (const std::bad_alloc&) {
    return {::ge::FAILED, "there is not enough memory"};
  } catch (const std::exception& error) {
    return {::ge::FAILED, error.what()};
  } catch (...) {
    return {::ge::FAILED, "unknown exception"};
  }
}

}  // namespace npugraph::ge
