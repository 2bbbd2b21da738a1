// SPDX-License-Identifier: Apache-2.0
// The bytes of a model, and the message in them. Immutable, so thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "ge/model.h"

namespace npugraph::ge {

struct SerialisedModel {
  std::span<const std::byte> bytes;  // model.owner keeps them alive
  Model model;
};

// ApiError: GE_GRAPH_INVALID if the bytes are no model with a graph. Messages name `source` and `path`.
std::shared_ptr<const SerialisedModel> copy_of_bytes(std::span<const std::byte> bytes, const std::string& source);
std::shared_ptr<const SerialisedModel> mapped_model(
    const std::string& path);  // and PARAM_INVALID if the file cannot be read

}  // namespace npugraph::ge
