// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/serialised_model.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "ge/api/run/api_error.h"
#include "ge/engine/compile.h"
#include "ge/wire.h"

namespace npugraph::ge {

namespace {

std::shared_ptr<const SerialisedModel> parsed(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                              const std::string& source) {
  try {
    auto result =
        std::make_shared<SerialisedModel>(SerialisedModel{bytes, parse_model(bytes, std::move(owner), source)});
    graph_of(result->model);
    return result;
  } catch (const UserError& error) {
    throw ApiError(::ge::GE_GRAPH_INVALID, error.what());
  }
}

}  // namespace

std::shared_ptr<const SerialisedModel> copy_of_bytes(std::span<const std::byte> bytes, const std::string& source) {
  const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return parsed(*copy, copy, source);
}

std::shared_ptr<const SerialisedModel> mapped_model(const std::string& path) {
  MappedFile file;
  try {
    file = map_file(path);
  } catch (const UserError& error) {
    throw ApiError(::ge::PARAM_INVALID, cat("cannot read '", path, "': ", error.what()));
  }
  return parsed(file.bytes(), file.memory, path);
}

}  // namespace npugraph::ge
