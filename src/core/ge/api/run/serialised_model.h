// SPDX-License-Identifier: Apache-2.0
// The bytes of a model, and the message in them. Immutable, so thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "ge/model.h"

namespace ge {
class Graph;
}

namespace npugraph::ge {

struct SerialisedModel {
  std::span<const std::byte> bytes;  // model.owner keeps them alive
  Model model;
  std::string folder;  // paths of constants in files of their own are relative to it
};

// What was loaded into a graph. ApiError PARAM_INVALID if it is empty.
std::shared_ptr<const SerialisedModel> model_in(const ::ge::Graph& graph);
// A model whose bytes are copied; those of constants in files are mapped. ApiError: GE_GRAPH_INVALID if the bytes are
// no model with a graph, or if a file of a constant cannot be read.
std::shared_ptr<const SerialisedModel> copy_of_bytes(std::span<const std::byte> bytes, const std::string& folder);
// A file that is mapped. ApiError: as above, and PARAM_INVALID if the file cannot be read.
std::shared_ptr<const SerialisedModel> mapped_model(const std::string& path);

}  // namespace npugraph::ge
