// SPDX-License-Identifier: Apache-2.0
// The two kinds of errors. UserError: an input is not allowed; the message says what was given, what is allowed and
// where. InternalError: one of our own invariants is broken; the message asks for a report.
// The compile side throws both; the run side returns statuses (abi/task.h).
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace npugraph {

class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// The arguments written one after the other, as by operator<<.
template <typename... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

// The message of an InternalError: `what`, and that npugraph has a bug.
std::string internal_error_text(const std::string& what);
// The same error with the place where it occurred in its message, which still begins with "internal error: ".
InternalError met_at(const std::string& where, const InternalError& error);
[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& message);

}  // namespace npugraph

// Internal check, on in every build. NG_CHECK(n == 2, "got ", n).
#define NG_CHECK(condition, ...)                                                                              \
  do {                                                                                                        \
    if (!(condition)) [[unlikely]]                                                                            \
      ::npugraph::fail_check(#condition, __FILE__, __LINE__, ::npugraph::cat("" __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
