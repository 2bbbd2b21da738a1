// SPDX-License-Identifier: Apache-2.0
// Operators that print and save tensors. They have no results: graphs keep them, in their order,
// for their side effects.
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <unordered_map>

#include <torch/csrc/jit/serialization/pickle.h>

#include "base/error.h"
#include "device/npu/call_record.h"
#include "device/npu/messages.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

namespace fs = std::filesystem;

void print_tensor(const Tensor& input, OptionalString name) {
  if (npu::is_captured()) return;
  npu::print(std::string(name.value_or("")), input.detach());
}
void print_tensor_meta(const Tensor&, OptionalString) {}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%d%H%M%S", &local)};
}

// `path` with the next number of this process that is not taken in its directory.
fs::path numbered(const fs::path& path, const std::string& counted_as) {
  static std::mutex mutex;
  static auto* counts = new std::unordered_map<std::string, int64_t>;
  const std::lock_guard lock(mutex);
  int64_t& count = (*counts)[counted_as];
  for (;;) {
    fs::path out = path;
    out += cat("_", count++, ".pt");
    if (!fs::exists(out)) return out;
  }
}

// x.pt -> x_device_0_0.pt, x_device_0_1.pt, ...; with `overwrite` x_device_0.pt.
fs::path file_for(OptionalString save_path, bool overwrite) {
  TORCH_CHECK(!save_path || !save_path->empty(),
              "save_npugraph_tensor: save_path is empty; None takes a name of its own");
  const auto index = npu::device_of_aliases();
  const std::string device = cat("_device_", index ? std::to_string(*index) : "cpu");
  fs::path path = save_path ? fs::absolute(fs::path(*save_path)) : fs::absolute("tensor");
  if (path.extension() == ".pt") path.replace_extension();
  const std::string counted_as = path.string() + device;
  if (!save_path) path += cat("_", now());
  path += device;
  return overwrite ? path += ".pt" : numbered(path, counted_as);
}

void save_value(const c10::IValue& value, OptionalString save_path, bool overwrite) {
  if (npu::is_captured()) return;
  const fs::path path = file_for(save_path, overwrite);
  const std::vector<char> bytes = torch::jit::pickle_save(value);
  std::error_code problem;
  fs::create_directories(path.parent_path(), problem);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  TORCH_CHECK(file.good(), "save_npugraph_tensor: cannot write ", path.string());
}

// `tensor`, copied if its storage has further bytes: files contain whole storages.
Tensor alone(const Tensor& tensor) {
  return tensor.storage().nbytes() == tensor.nbytes() ? tensor : tensor.clone(at::MemoryFormat::Contiguous);
}

void save_tensor(const Tensor& input, OptionalString path, bool overwrite) {
  save_value(alone(input), path, overwrite);
}
void save_tensor_meta(const Tensor&, OptionalString, bool) {}
void save_list(at::TensorList input, OptionalString path, bool overwrite) {
  std::vector<c10::IValue> elements;  // saved as a tuple: torch.load accepts lists of tensors only from trusted files
  for (const Tensor& tensor : input) elements.emplace_back(alone(tensor));
  save_value(c10::ivalue::Tuple::create(std::move(elements)), path, overwrite);
}
void save_list_meta(at::TensorList, OptionalString, bool) {}

}  // namespace

void define_tensor_dumps(OperatorLibrary& library) {
  constexpr const char* kSave =
      "Saves input, a tensor or a list of tensors, to a file. torch.load reads it as tensors of cpu, and a list as a "
      "tuple. For the save_path x.pt the file is x_device_I_N.pt, where I is the index of the device, or cpu, and N "
      "counts the files from 0 and skips names that are taken. With overwrite=True it is x_device_I.pt. Without "
      "save_path it is tensor_TIME_device_I_N.pt in the working directory, with TIME as YYYYMMDDhhmmss. Missing "
      "directories are made. Captured graphs save at replays only.";
  library.add({
      .schema = "npu::print_npugraph_tensor(Tensor input, *, str? tensor_name=None) -> ()",
      .kernel = whole(&print_tensor, &print_tensor_meta),
      .traits = {.has_effect = true},
      .definition = "Prints input by Python's print in the form tensor_name=values, shape=..., dtype=... The part "
                    "tensor_name= is left out if no name is given. Captured graphs print at replays only.",
  });
  library.add({
      .schema = "npu::save_npugraph_tensor(Tensor input, *, str? save_path=None, bool overwrite=False) -> ()",
      .kernel = whole(&save_tensor, &save_tensor_meta),
      .traits = {.has_effect = true},
      .definition = kSave,
  });
  library.add({
      .schema =
          "npu::save_npugraph_tensor.tensor_list(Tensor[] input, *, str? save_path=None, bool overwrite=False) -> ()",
      .kernel = whole(&save_list, &save_list_meta),
      .traits = {.has_effect = true},
      .definition = kSave,
  });
}

}  // namespace npugraph::npu_ops
