// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/serialised_model.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "ge/api/graph.h"
#include "ge/api/run/api_error.h"
#include "ge/engine/compile.h"
#include "ge/wire.h"

namespace npugraph::ge {

namespace {

std::shared_ptr<const SerialisedModel> parsed(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                              const std::string& source, const std::string& folder) {
  try {
    auto result = std::make_shared<SerialisedModel>(bytes, parse_model(bytes, std::move(owner), source), folder);
    graph_of(result->model);
    map_file_constants(result->model, folder);
    return result;
  } catch (const UserError& error) {
    throw ApiError(::ge::GE_GRAPH_INVALID, error.what());
  }
}

}  // namespace

std::shared_ptr<const SerialisedModel> model_in(const ::ge::Graph& graph) {
  if (graph.IsValid()) return graph.serialised();
  throw ApiError(::ge::PARAM_INVALID,
                 "the graph is empty: LoadFromFile() or LoadFromSerializedModelArray() has to be called first");
}

std::shared_ptr<const SerialisedModel> copy_of_bytes(std::span<const std::byte> bytes, const std::string& folder) {
  const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return parsed(*copy, copy, "the model", folder);
}

std::shared_ptr<const SerialisedModel> mapped_model(const std::string& path) {
  MappedFile file;
  try {
    file = map_file(path);
  } catch (const UserError& error) {
    throw ApiError(::ge::PARAM_INVALID, cat("cannot read '", path, "': ", error.what()));
  }
  return parsed(file.bytes(), file.memory, path, std::filesystem::path(path).parent_path().string());
}

}  // namespace npugraph::ge
