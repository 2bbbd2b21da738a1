// SPDX-License-Identifier: Apache-2.0
// The text form of a kernel, which README.md shows, and the messages of its checks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "loop/kernel.h"
#include "tensor/expr.h"

namespace npugraph::loop {

// A kernel has at most this many values, and its loops nest at most this deep, so that walking over one is always safe.
inline constexpr ValueId kMaxValues = 1 << 20;
inline constexpr int kMaxLoopDepth = 64;

// The text parses to an equal kernel if `verify` accepts the kernel. Equal kernels have equal texts.
std::string print(const Kernel& kernel);

// Reads a kernel and verifies it. UserError with source, line and column on malformed text and on values, buffers and
// symbols that are not visible where they are used; with the source and the rule on the other rules of verify.
Kernel parse(std::string_view text, std::string source);

// Reads kernels whose texts follow each other.
std::vector<Kernel> parse_all(std::string_view text, const std::string& source);

// Whether a text begins like that of a kernel.
bool is_kernel_text(std::string_view text);

// The first rule that `kernel` breaks, and where; empty if there is none.
std::string verify(const Kernel& kernel);

// Whether a kernel may use the expression as an index, if it knows the symbols: an integer that neither powers nor
// floats are part of.
bool is_index(const Expr& expr);

// Messages of failed checks: "%" is the value that the check shows, "{n + 1}" an expression of the kernel's scalars.

// The texts of the expressions between braces.
std::vector<std::string_view> expressions_in(std::string_view message);

// The message with all values filled in. UserError if an expression overflows.
std::string fill_in(const std::string& message, int64_t shown, const std::function<Scalar(const std::string&)>& scalar);

}  // namespace npugraph::loop
