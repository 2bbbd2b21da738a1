// SPDX-License-Identifier: Apache-2.0
// Formats and memory of npu tensors. Memory is always plain, and a format is a tag of the storage
// (device/npu/format.h).
#include "device/npu/facts.h"
#include "device/npu/format.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

c10::StorageImpl* storage_of(const Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

void check_npu(const char* op, const char* name, const Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.device().type() == npu::kNpu, op, ": ", name, " is on ", tensor.device(),
                              ", allowed is npu");
}

// Fake tensors are on meta, where no tensor has a format.
void tag(const Tensor& tensor, int format) {
  if (storage_of(tensor)->device().type() == npu::kNpu) npu::set_format(tensor, format);
}

Tensor cast_to(const char* op, const Tensor& input, int64_t format) {
  const int permitted = npu::permitted_format(op, format);
  Tensor out = input.clone(at::MemoryFormat::Contiguous);
  tag(out, permitted);
  return out;
}

// The two types say how an NPU packs bits. Plain memory is not packed, so they are ignored.
Tensor format_cast(const Tensor& input, int64_t format, OptionalInt /*customize_dtype*/, OptionalInt /*input_dtype*/) {
  return cast_to("npu_format_cast", input, format);
}
Tensor format_cast_plain(const Tensor& input, int64_t format) { return cast_to("_npu_format_cast", input, format); }
Tensor format_cast_aclnn(const Tensor& input, int64_t format, int64_t) {
  return cast_to("_npu_format_cast", input, format);
}
Tensor format_cast_typed(const Tensor& input, int64_t format, int64_t, int64_t) {
  return cast_to("_npu_format_cast", input, format);
}

Tensor plain_like(const Tensor& input) { return at::empty_symint(input.sym_sizes(), input.options()); }
Tensor format_cast_meta(const Tensor& input, int64_t, OptionalInt, OptionalInt) { return plain_like(input); }
Tensor format_cast_plain_meta(const Tensor& input, int64_t) { return plain_like(input); }
Tensor format_cast_aclnn_meta(const Tensor& input, int64_t, int64_t) { return plain_like(input); }
Tensor format_cast_typed_meta(const Tensor& input, int64_t, int64_t, int64_t) { return plain_like(input); }

Tensor& format_cast_(Tensor& input, int64_t format, OptionalInt, OptionalInt) {
  npu::set_format(input, npu::permitted_format("npu_format_cast_", format));
  return input;
}
Tensor& format_cast_like(Tensor& input, const Tensor& src, OptionalInt, OptionalInt) {
  check_npu("npu_format_cast_", "src", src);
  npu::set_format(input, npu::format_of(src));
  return input;
}
Tensor& format_cast_meta_(Tensor& input, int64_t, OptionalInt, OptionalInt) { return input; }
Tensor& format_cast_like_meta(Tensor& input, const Tensor&, OptionalInt, OptionalInt) { return input; }

int64_t get_format(const Tensor& input) { return npu::format_of(input); }

int64_t elements_of_storage(const Tensor& input) {
  return static_cast<int64_t>(storage_of(input)->nbytes() / input.dtype().itemsize());
}

Tensor empty_in(at::IntArrayRef size, const at::TensorOptions& options, int format) {
  Tensor out = at::empty(size, options);
  tag(out, format);
  return out;
}

Tensor empty_with_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory, int64_t format,
                         OptionalInt /*base_addr_aligned_kb*/) {
  constexpr const char* kName = "empty_with_format";
  const at::TensorOptions options = options_on_npu(kName, dtype, layout, device, pin_memory);
  return empty_in(size, options, npu::permitted_format(kName, format));
}

Tensor unsafe_empty_with_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                std::optional<at::Layout> layout, std::optional<at::Device> device,
                                std::optional<bool> pin_memory, int64_t format, bool keep_format) {
  constexpr const char* kName = "unsafe_empty_with_format";
  npu::check_format(kName, format);
  const at::TensorOptions options = options_on_npu(kName, dtype, layout, device, pin_memory);
  return empty_in(size, options, keep_format ? static_cast<int>(format) : npu::permitted_format(kName, format));
}

Tensor empty_with_swapped_memory(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                 std::optional<at::Device> device) {
  return at::empty(size, options_on_npu("empty_with_swapped_memory", dtype, std::nullopt, device, std::nullopt));
}

void check_same_memory(const char* op, const Tensor& input, const Tensor& src) {
  check_npu(op, "src", src);
  check_type(op, "src", src, {input.scalar_type()});
  TORCH_CHECK(src.device() == input.device(), op, ": src is on ", src.device(), ", allowed is ", input.device(),
              ", where input is");
  TORCH_CHECK(elements_of_storage(src) == elements_of_storage(input), op, ": the storage of src holds ",
              elements_of_storage(src), " elements, allowed are ", elements_of_storage(input), ", as input has");
}

Tensor& copy_memory_(Tensor& input, const Tensor& src, bool non_blocking) {
  check_same_memory("copy_memory_", input, src);
  auto all_of = [](const Tensor& tensor) {
    return at::empty({0}, tensor.options()).set_(tensor.storage(), 0, {elements_of_storage(tensor)}, {1});
  };
  all_of(input).copy_(all_of(src), non_blocking);
  return input;
}
Tensor& copy_memory_meta(Tensor& input, const Tensor&, bool) { return input; }

int64_t change_data_ptr(const Tensor& dst, const Tensor& src, int64_t index) {
  constexpr const char* kName = "npu_change_data_ptr";
  check_npu(kName, "src", src);
  check_type(kName, "src", src, {dst.scalar_type()});
  TORCH_CHECK(src.device() == dst.device(), kName, ": src is on ", src.device(), ", allowed is ", dst.device(),
              ", where dst is");
  const int64_t room = elements_of_storage(src) - elements_of_storage(dst);
  TORCH_CHECK(index >= 0 && index <= room, kName, ": index is ", index, ", allowed are 0 to ", room,
              ", as the storage of src holds ", elements_of_storage(src), " elements and that of dst ",
              elements_of_storage(dst));
  const auto itemsize = static_cast<int64_t>(src.dtype().itemsize());
  npu::stand_on(storage_of(dst), storage_of(src), index * itemsize);
  return 0;
}

}  // namespace

void define_formats(OperatorLibrary& library) {
  constexpr const char* kCast =
      "Another name of npu_format_cast. customize_dtype and input_dtype are ignored here, too.";
  library.add({
      .schema = "npu::npu_format_cast(Tensor input, int acl_format, *, int? customize_dtype=None, int? "
                "input_dtype=None) -> Tensor",
      .kernel = on_npu(&format_cast, &format_cast_meta),
      .definition = "Returns a contiguous copy of the npu tensor input, whose storage has the memory format acl_format "
                    "(torch_npu.Format), for example 2 (ND) or 29 (FRACTAL_NZ). The format is only a tag, and the "
                    "elements stay in plain order. While torch.npu.config.allow_internal_format is False, formats that "
                    "only an NPU's kernels know are replaced by their plain formats, with a warning; an unknown "
                    "acl_format raises RuntimeError. customize_dtype and input_dtype are ignored.",
  });
  library.add({
      .schema = "npu::_npu_format_cast(Tensor input, int acl_format) -> Tensor",
      .kernel = on_npu(&format_cast_plain, &format_cast_plain_meta),
      .definition = kCast,
  });
  library.add({
      .schema = "npu::_npu_format_cast.aclnn(Tensor input, int acl_format, int customize_dtype) -> Tensor",
      .kernel = on_npu(&format_cast_aclnn, &format_cast_aclnn_meta),
      .definition = kCast,
  });
  library.add({
      .schema = "npu::_npu_format_cast.input_dtype(Tensor input, int acl_format, int customize_dtype, int input_dtype) "
                "-> Tensor",
      .kernel = on_npu(&format_cast_typed, &format_cast_typed_meta),
      .definition = kCast,
  });
  library.add({
      .schema = "npu::npu_format_cast_(Tensor(a!) input, Tensor src, *, int? customize_dtype=None, int? "
                "input_dtype=None) -> Tensor(a!)",
      .kernel = on_npu(&format_cast_like, &format_cast_like_meta),
      .definition = "Gives the storage of input the memory format of the npu tensor src in place, and returns input. "
                    "The format is only a tag, so no element moves. customize_dtype and input_dtype are ignored.",
  });
  library.add({
      .schema = "npu::npu_format_cast_.acl_format(Tensor(a!) input, int acl_format, *, int? customize_dtype=None, int? "
                "input_dtype=None) -> Tensor(a!)",
      .kernel = on_npu(&format_cast_, &format_cast_meta_),
      .definition = "npu_format_cast in place: gives the storage of input the memory format acl_format and returns "
                    "input. customize_dtype and input_dtype are ignored.",
  });
  library.add({
      .schema = "npu::get_npu_format(Tensor input) -> int",
      .kernel = on_npu(&get_format),
      .definition = "Returns the code of the memory format (torch_npu.Format) of input's storage. It is 2 (ND) if no "
                    "format was set. Views have the format of their base.",
  });
  library.add({
      .schema = "npu::get_storage_size(Tensor input) -> int",
      .kernel = on_npu(&elements_of_storage),
      .definition = "Returns how many elements of input's type the whole storage of input holds. For a view this may "
                    "be more than input.numel().",
  });
  library.add({
      .schema = "npu::copy_memory_(Tensor(a!) input, Tensor src, bool non_blocking=False) -> Tensor(a!)",
      .kernel = on_npu(&copy_memory_, &copy_memory_meta),
      .definition = "Copies the whole storage of src into the storage of input in place, whatever their shapes, "
                    "strides and offsets are, and returns input. src is an npu tensor on the device of input and of "
                    "its type, and both storages hold the same number of elements. non_blocking is that of "
                    "torch.Tensor.copy_.",
  });
  library.add({
      .schema = "npu::npu_change_data_ptr(Tensor dst, Tensor src, int index) -> int",
      .kernel = on_npu(&change_data_ptr),
      .definition = "Lets the storage of dst use the memory of src's storage, from element index of that storage on, "
                    "without a copy. dst and its views then share this memory with src. They keep their sizes and "
                    "their memory format, and keep the memory alive. src is on the device of dst and of its type, and "
                    "its storage must hold all elements of dst's storage from index on. Returns 0.",
  });
  library.add({
      .schema = "npu::empty_with_format(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? "
                "device=None, bool? pin_memory=None, int acl_format=2, int? base_addr_aligned_kb=None) -> Tensor",
      .kernel = factory(&empty_with_format),
      .definition = "torch.empty on npu with the memory format acl_format, a code of torch_npu.Format such as 2 (ND, "
                    "plain) or 29 (FRACTAL_NZ). As in npu_format_cast the format is only a tag: memory stays plain, "
                    "any size fits, and formats that only an NPU's kernels know are replaced while "
                    "torch.npu.config.allow_internal_format is False. An unknown acl_format raises RuntimeError. "
                    "device is an npu, by default the current one; others raise NotImplementedError, and pin_memory "
                    "must not be True. base_addr_aligned_kb is ignored.",
  });
  library.add({
      .schema = "npu::empty_with_swapped_memory(int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
      .kernel = factory(&empty_with_swapped_memory),
      .definition = "torch.empty on npu, for tensors that an NPU keeps in memory of the host. All memory of npu is "
                    "memory of the host here, so the result is an ordinary npu tensor.",
  });
  library.add({
      .schema = "npu::unsafe_empty_with_format(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? "
                "device=None, bool? pin_memory=None, int acl_format=2, bool keep_format=False) -> Tensor",
      .kernel = factory(&unsafe_empty_with_format),
      .definition = "empty_with_format, with a choice for formats that only an NPU's kernels know. With "
                    "keep_format=True such a format is kept even while torch.npu.config.allow_internal_format is "
                    "False.",
  });
}

}  // namespace npugraph::npu_ops
