// SPDX-License-Identifier: Apache-2.0
// Field numbers are those of package ge.proto.
#include "ge/wire.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>
#include <vector>

#include <protozero/pbf_reader.hpp>

#include "base/error.h"
#include "base/files.h"
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

namespace {

using protozero::pbf_reader;

// Attributes hold tensors and lists, which hold attributes. No writer nests deeper than a few levels.
constexpr int kMaxDepth = 32;

// Fields by number and wire type. A field of another wire type than that of ge.proto is skipped, as protobuf does.
constexpr uint32_t varint_field(uint32_t number) {
  return protozero::tag_and_type(number, protozero::pbf_wire_type::varint);
}
constexpr uint32_t fixed32_field(uint32_t number) {
  return protozero::tag_and_type(number, protozero::pbf_wire_type::fixed32);
}
constexpr uint32_t bytes_field(uint32_t number) {
  return protozero::tag_and_type(number, protozero::pbf_wire_type::length_delimited);
}

std::string_view view_of(const protozero::data_view& data) { return {data.data(), data.size()}; }

// One method per message. `depth_` counts the messages that are being read, so that hostile nesting ends in an error
// and not in a stack overflow.
class Reader {
 public:
  explicit Reader(std::string source) : source_(std::move(source)) {}

  Model model(pbf_reader in) {
    const Scope scope(*this, "ModelDef");
    Model model;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case bytes_field(1): model.name = in.get_string(); break;
        case varint_field(2): model.version = in.get_uint32(); break;
        case bytes_field(3): model.custom_version = in.get_string(); break;
        case bytes_field(7): model.graphs.push_back(graph(in.get_message())); break;
        case bytes_field(11): add_attr(model.attrs, in.get_message()); break;
        default: in.skip();
      }
    }
    sort(model.attrs);
    return model;
  }

  // The messages that are being read, outermost first.
  std::string place() const {
    std::string place;
    for (const char* message : messages_) place += cat(place.empty() ? "" : " > ", message);
    return place;
  }

 private:
  class Scope {
   public:
    Scope(Reader& reader, const char* message) : reader_(reader), unwinding_(std::uncaught_exceptions()) {
      if (reader_.messages_.size() == kMaxDepth)
        throw UserError(cat(reader_.source_, ": messages are nested more than ", kMaxDepth, " deep"));
      reader_.messages_.push_back(message);
    }
    // An error leaves the messages as they are, for place().
    ~Scope() {
      if (std::uncaught_exceptions() == unwinding_) reader_.messages_.pop_back();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Reader& reader_;
    int unwinding_;
  };

  GraphDef graph(pbf_reader in) {
    const Scope scope(*this, "GraphDef");
    GraphDef graph;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case bytes_field(1): graph.name = in.get_string(); break;
        case bytes_field(6): graph.ops.push_back(op(in.get_message())); break;
        case bytes_field(11): add_attr(graph.attrs, in.get_message()); break;
        default: in.skip();
      }
    }
    sort(graph.attrs);
    return graph;
  }

  OpDef op(pbf_reader in) {
    const Scope scope(*this, "OpDef");
    OpDef op;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case bytes_field(1): op.name = in.get_string(); break;
        case bytes_field(2): op.type = in.get_string(); break;
        case bytes_field(5): op.inputs.push_back(input_ref(in.get_string())); break;
        case bytes_field(10): add_attr(op.attrs, in.get_message()); break;
        case bytes_field(33): op.input_descs.push_back(desc(in.get_message())); break;
        case bytes_field(34): op.output_descs.push_back(desc(in.get_message())); break;
        default: in.skip();
      }
    }
    sort(op.attrs);
    return op;
  }

  // "producer:index"; names may contain colons, so the last one counts.
  InputRef input_ref(const std::string& text) const {
    if (text.empty()) return {};
    const size_t colon = text.rfind(':');
    InputRef ref;
    const char* begin = text.data() + (colon == std::string::npos ? text.size() : colon + 1);
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, ref.index);
    if (colon == 0 || begin == end || error != std::errc() || stop != end || ref.index < InputRef::kControl)
      throw UserError(cat(source_, ": an input is 'producer:index', got '", text, "'"));
    ref.producer = text.substr(0, colon);
    return ref;
  }

  TensorDesc desc(pbf_reader in) {
    const Scope scope(*this, "TensorDescriptor");
    TensorDesc desc;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case bytes_field(1): desc.name = in.get_string(); break;
        case varint_field(2): desc.dtype = static_cast<WireType>(in.get_enum()); break;
        case bytes_field(3): desc.dims = shape(in.get_message()); break;
        case bytes_field(4): desc.layout = in.get_string(); break;
        case bytes_field(5): add_attr(desc.attrs, in.get_message()); break;
        case bytes_field(14): desc.device_type = in.get_string(); break;
        default: in.skip();
      }
    }
    sort(desc.attrs);
    return desc;
  }

  std::vector<int64_t> shape(pbf_reader in) {
    const Scope scope(*this, "ShapeDef");
    std::vector<int64_t> dims;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case varint_field(1):
        case bytes_field(1): add_ints(dims, in); break;
        default: in.skip();
      }
    }
    return dims;
  }

  TensorValue tensor(pbf_reader in) {
    const Scope scope(*this, "TensorDef");
    TensorValue tensor;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case bytes_field(1): tensor.desc = desc(in.get_message()); break;
        case bytes_field(2): tensor.data = view_of(in.get_view()); break;
        default: in.skip();
      }
    }
    return tensor;
  }

  // An entry of a map from names to attributes.
  void add_attr(Attributes& attrs, pbf_reader in) {
    NamedAttr attr;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case bytes_field(1): attr.name = in.get_string(); break;
        case bytes_field(2): attr.value = value(in.get_message()); break;
        default: in.skip();
      }
    }
    attrs.push_back(std::move(attr));
  }

  AttrValue value(pbf_reader in) {
    const Scope scope(*this, "AttrDef");
    AttrValue attr;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case bytes_field(1): attr.value = list(in.get_message()); break;
        case bytes_field(2):
        case bytes_field(7): attr.value = view_of(in.get_view()); break;
        case varint_field(3): attr.value = in.get_int64(); break;
        case fixed32_field(4): attr.value = in.get_float(); break;
        case varint_field(5): attr.value = in.get_bool(); break;
        case bytes_field(11): attr.value = desc(in.get_message()); break;
        case bytes_field(12): attr.value = tensor(in.get_message()); break;
        case bytes_field(13): attr.value = std::make_shared<const GraphDef>(graph(in.get_message())); break;
        case bytes_field(14): attr.value = int_lists(in.get_message()); break;
        case varint_field(15): attr.value = TypeNumber{in.get_int64()}; break;
        case bytes_field(16): attr.value = float_lists(in.get_message()); break;
        default: in.skip();
      }
    }
    return attr;
  }

  ListValue list(pbf_reader in) {
    const Scope scope(*this, "AttrDef.ListValue");
    ListValue list;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case bytes_field(2):
        case bytes_field(7): list.s.push_back(view_of(in.get_view())); break;
        case varint_field(3):
        case bytes_field(3): add_ints(list.i, in); break;
        case fixed32_field(4):
        case bytes_field(4): add_floats(list.f, in); break;
        case varint_field(5):
        case bytes_field(5): add_bools(list.b, in); break;
        case bytes_field(8): list.td.push_back(desc(in.get_message())); break;
        case bytes_field(9): list.t.push_back(tensor(in.get_message())); break;
        case varint_field(12):
        case bytes_field(12): add_ints(list.dt, in); break;
        default: in.skip();
      }
    }
    return list;
  }

  std::vector<std::vector<int64_t>> int_lists(pbf_reader in) {
    const Scope scope(*this, "AttrDef.ListListInt");
    std::vector<std::vector<int64_t>> lists;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case bytes_field(1): lists.push_back(shape(in.get_message())); break;  // both messages are a list of integers
        default: in.skip();
      }
    }
    return lists;
  }

  std::vector<std::vector<float>> float_lists(pbf_reader in) {
    const Scope scope(*this, "AttrDef.ListListFloat");
    std::vector<std::vector<float>> lists;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case bytes_field(1): lists.push_back(floats(in.get_message())); break;
        default: in.skip();
      }
    }
    return lists;
  }

  std::vector<float> floats(pbf_reader in) {
    std::vector<float> values;
    while (in.next()) {
      switch (in.tag_and_type()) {
        case fixed32_field(1):
        case bytes_field(1): add_floats(values, in); break;
        default: in.skip();
      }
    }
    return values;
  }

  // Repeated numbers may be packed or not.
  static bool is_packed(const pbf_reader& in) { return in.wire_type() == protozero::pbf_wire_type::length_delimited; }

  static void add_ints(std::vector<int64_t>& out, pbf_reader& in) {
    if (!is_packed(in)) {
      out.push_back(in.get_int64());
      return;
    }
    for (const int64_t v : in.get_packed_int64()) out.push_back(v);
  }

  static void add_floats(std::vector<float>& out, pbf_reader& in) {
    if (!is_packed(in)) {
      out.push_back(in.get_float());
      return;
    }
    for (const float v : in.get_packed_float()) out.push_back(v);
  }

  static void add_bools(std::vector<bool>& out, pbf_reader& in) {
    if (!is_packed(in)) {
      out.push_back(in.get_bool());
      return;
    }
    for (const bool v : in.get_packed_bool()) out.push_back(v);
  }

  // As in protobuf, the last entry of a name counts.
  static void sort(Attributes& attrs) {
    std::ranges::stable_sort(attrs, {}, &NamedAttr::name);
    const auto rest = std::ranges::unique(attrs.rbegin(), attrs.rend(), {}, &NamedAttr::name);
    attrs.erase(attrs.begin(), rest.begin().base());
  }

  std::string source_;
  std::vector<const char*> messages_;
};

}  // namespace

const AttrValue* find_attr(const Attributes& attrs, std::string_view name) {
  const auto found = std::ranges::lower_bound(attrs, name, {}, &NamedAttr::name);
  return found != attrs.end() && found->name == name ? &found->value : nullptr;
}

Model parse_model(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& source) {
  Reader reader(source);
  try {
    Model model = reader.model(pbf_reader(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    model.owner = std::move(owner);
    return model;
  } catch (const protozero::exception& error) {
    throw UserError(cat(source, " is no model of GE: ", reader.place(), ": ", error.what()));
  }
}

Model read_model(const std::string& path) {
  MappedFile file;
  try {
    file = map_file(path);
  } catch (const UserError& error) {
    throw UserError(cat("cannot read ", path, ": ", error.what()));
  }
  Model model = parse_model(file.bytes(), file.memory, path);
  map_file_constants(model, std::filesystem::path(path).parent_path().string());
  return model;
}

}  // namespace npugraph::ge
