// SPDX-License-Identifier: Apache-2.0
// Operators that print and save tensors. They have no results: graphs keep them, in their order, for what they do.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include <torch/csrc/jit/serialization/pickle.h>

#include "torch/npu_ops/framework/checks.h"
#include "torch/npu_ops/tensors/families.h"

namespace npugraph::npu_ops {
namespace {

using OptionalString = std::optional<c10::string_view>;
namespace fs = std::filesystem;

void print_tensor(const Tensor& input, OptionalString name) {
  std::cout << "tensor";
  if (name) std::cout << ' ' << *name;
  std::cout << ":\n" << input << std::endl;
}
void print_tensor_meta(const Tensor&, OptionalString) {}

// `path`, or, where something is there, the first of path_1, path_2, ... where nothing is.
fs::path free_path(const fs::path& path) {
  fs::path out = path;
  for (int64_t count = 1; fs::exists(out); ++count)
    out = path.parent_path() / (path.stem().string() + "_" + std::to_string(count) + path.extension().string());
  return out;
}

void save(const c10::IValue& value, OptionalString save_path, bool overwrite) {
  fs::path path = save_path ? fs::path(*save_path) : fs::path("npugraph_tensor.pt");
  if (!overwrite) path = free_path(path);
  const std::vector<char> bytes = torch::jit::pickle_save(value);
  std::error_code problem;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), problem);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  TORCH_CHECK(file.good(), "save_npugraph_tensor: cannot write to save_path ", path.string());
}

// A file holds the storages of its tensors whole.
Tensor alone(const Tensor& tensor) {
  return tensor.storage().nbytes() == tensor.nbytes() ? tensor : tensor.clone(at::MemoryFormat::Contiguous);
}

void save_tensor(const Tensor& input, OptionalString path, bool overwrite) { save(alone(input), path, overwrite); }
void save_tensor_meta(const Tensor&, OptionalString, bool) {}
void save_list(at::TensorList input, OptionalString path, bool overwrite) {
  std::vector<c10::IValue> elements;  // of a tuple: torch.load takes lists of tensors from trusted files only
  for (const Tensor& tensor : input) elements.emplace_back(alone(tensor));
  save(c10::ivalue::Tuple::create(std::move(elements)), path, overwrite);
}
void save_list_meta(at::TensorList, OptionalString, bool) {}

}  // namespace

void define_tensor_dumps(Definitions& npu) {
  constexpr const char* kSave =
      "Writes input to the file save_path, by default npugraph_tensor.pt, which torch.load reads as tensors of cpu, "
      "and lists as tuples. "
      "Without "
      "overwrite a file that is there stays, and the new one is path_1, path_2, ...";
  npu.computed("print_npugraph_tensor", &print_tensor, &print_tensor_meta,
               "Prints tensor_name and the values of input to the standard output");
  npu.computed("save_npugraph_tensor", &save_tensor, &save_tensor_meta, kSave);
  npu.computed("save_npugraph_tensor.tensor_list", &save_list, &save_list_meta, kSave);
}

}  // namespace npugraph::npu_ops
