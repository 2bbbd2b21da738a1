// SPDX-License-Identifier: Apache-2.0
// How calls of the API fail: inside by exceptions, outside by a status and a message for the calling thread.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"
#include "ge/api/types.h"

namespace npugraph::ge {

struct ApiError : std::runtime_error {
  ApiError(::ge::Status code, const std::string& message) : std::runtime_error(message), status(code) {}
  const ::ge::Status status;
};

// Messages of the calling thread. take_*() clear what they return.
void set_error_message(std::string message);
void add_warning(std::string message);  // one line each
std::string take_error_message();
std::string take_warnings();

// Status and message of an exception that is being handled.
std::pair<::ge::Status, std::string> current_failure();

// Runs the body of the API's function `name`.
template <typename Body>
::ge::Status api_call(const char* name, Body&& body) noexcept {
  try {
    body();
    return ::ge::SUCCESS;
  } catch (...) {
    const auto [status, message] = current_failure();
    set_error_message(cat(name, ": ", message));
    return status;
  }
}

}  // namespace npugraph::ge
