// SPDX-License-Identifier: Apache-2.0
#include "ge/file_constants.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "ge/data_types.h"

namespace npugraph::ge {

namespace {

template <typename T>
const T& required(const OpDef& op, std::string_view name) {
  const T* value = find_attr<T>(op.attrs, name);
  if (value == nullptr) throw UserError(cat("it has no attribute '", name, "' of the kind that Ascend IR says"));
  return *value;
}

// Writers disagree about the kind of attribute that a number of an element type is.
int64_t type_number(const OpDef& op) {
  const auto* number = find_attr<int64_t>(op.attrs, "dtype");
  return number != nullptr ? *number : required<TypeNumber>(op, "dtype").number;
}

MappedFile map_of(const OpDef& op, const std::filesystem::path& folder) {
  const std::string path = (folder / std::string(required<std::string_view>(op, "file_path"))).string();
  try {
    return map_file(path);
  } catch (const UserError& error) {
    throw UserError(cat("cannot read ", path, ": ", error.what()));
  }
}

void make_constant(OpDef& op, const MappedFile& file) {
  const DataTypeRow* type = find_type_by_number(type_number(op));
  if (type == nullptr) throw UserError(cat("its attribute 'dtype' is no type of an element: ", type_number(op)));
  TensorValue value;
  value.desc.dtype = type->wire;
  value.desc.dims = required<ListValue>(op, "shape").i;
  value.data = {reinterpret_cast<const char*>(file.bytes().data()), file.size};
  op.type = "Const";
  op.attrs = {NamedAttr{"value", {std::move(value)}}};
}

}  // namespace

void map_file_constants(Model& model, const std::string& folder) {
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (GraphDef& graph : model.graphs) {
    for (OpDef& op : graph.ops) {
      if (op.type != "FileConstant") continue;
      try {
        const MappedFile file = map_of(op, folder);
        make_constant(op, file);
        owners->push_back(file.memory);
      } catch (const UserError& error) {
        throw UserError(cat("operator '", op.name, "' of type FileConstant: ", error.what()));
      }
    }
  }
  if (owners->empty()) return;
  owners->push_back(std::exchange(model.owner, nullptr));
  model.owner = std::move(owners);
}

}  // namespace npugraph::ge
