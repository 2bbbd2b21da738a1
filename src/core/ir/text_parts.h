// SPDX-License-Identifier: Apache-2.0
// Words and pieces that the printer and the parser of the text form share. Internal to ir/.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ir/graph.h"
#include "tensor/lexer.h"

namespace npugraph::ir {

inline constexpr std::array<std::pair<Trait, std::string_view>, 19> kTraitNames = {
    {{Trait::kElementwise, "elementwise"},
     {Trait::kReduction, "reduction"},
     {Trait::kView, "view"},
     {Trait::kProduct, "product"},
     {Trait::kRandom, "random"},
     {Trait::kSideEffect, "side_effect"},
     {Trait::kMutates, "mutates"},
     {Trait::kCommutative, "commutative"},
     {Trait::kMayThrow, "may_throw"},
     {Trait::kCopyLike, "copy_like"},
     {Trait::kOpaque, "opaque"},
     {Trait::kCreation, "creation"},
     {Trait::kUninitialised, "uninitialised"},
     {Trait::kExact, "exact"},
     {Trait::kBeginsScope, "begins_scope"},
     {Trait::kEndsScope, "ends_scope"},
     {Trait::kCollective, "collective"},
     {Trait::kForeign, "foreign"},
     {Trait::kNested, "nested"}}};

inline constexpr std::array<std::string_view, 4> kInputKindNames = {"user", "parameter", "buffer", "static"};

// Constants of at most this many elements are written with their values.
inline constexpr int64_t kMaxPrintedElements = 64;

// Number of elements in the memory of a constant of this type; nullopt if it is not known, or the type is no tensor.
std::optional<int64_t> constant_elements(const Type& type);

// "[1, 2, 3]" in memory order; nullopt if the bytes are missing or there are too many elements. 8-bit floats are
// written as their bits. The payload of a NaN is not kept.
std::optional<std::string> print_elements(const Type& type, const ConstantData& data);
// Reads such a list. UserError when the elements do not fit the type.
std::shared_ptr<const ConstantData> parse_elements(Lexer& lexer, const Type& type);

}  // namespace npugraph::ir
