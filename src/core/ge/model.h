// SPDX-License-Identifier: Apache-2.0
// A model of Ascend's graph engine (GE), as read from the protobuf messages of package ge.proto. Holds the fields that
// the engine reads; the numbers are those of the wire format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace npugraph::ge {

// ge.proto.DataType. Attributes of operators use a second numbering (data_types.h).
enum class WireType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kFloat16 = 2,
  kInt8 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kUint16 = 6,
  kInt32 = 7,
  kInt64 = 8,
  kUint32 = 9,
  kUint64 = 10,
  kBool = 11,
  kDouble = 12,
  kString = 13,
  kComplex64 = 16,
  kComplex128 = 17,
  kBf16 = 27,
  kComplex32 = 32,
  kFloat8E5m2 = 34,
  kFloat8E4m3fn = 35,
};

struct NamedAttr;
using Attributes = std::vector<NamedAttr>;  // sorted by name, each name once

struct TensorDesc {
  std::string name;
  WireType dtype = WireType::kUndefined;
  std::vector<int64_t> dims;  // -1: an unknown size; {-2}: unknown rank
  std::string layout;         // "ND", "NCHW", ...
  std::string device_type;    // "NPU", "CPU"
  Attributes attrs;

  bool has_unknown_rank() const { return dims.size() == 1 && dims[0] == -2; }
};

struct TensorValue {
  TensorDesc desc;
  std::string_view data;  // little-endian elements; in the bytes of Model::owner
};

// ge.proto.AttrDef.ListValue. Writers disagree about val_type, so the member that is not empty counts.
struct ListValue {
  std::vector<std::string_view> s;
  std::vector<int64_t> i;
  std::vector<float> f;
  std::vector<bool> b;
  std::vector<int64_t> dt;
  std::vector<TensorDesc> td;
  std::vector<TensorValue> t;
};

struct TypeNumber {
  int64_t number = 0;
};

struct GraphDef;

// ge.proto.AttrDef. `std::monostate`: not set, or a kind that the engine does not read (functions, expressions).
struct AttrValue {
  std::variant<std::monostate, std::string_view, int64_t, float, bool, ListValue, TensorDesc, TensorValue,
               std::vector<std::vector<int64_t>>, std::vector<std::vector<float>>, TypeNumber,
               std::shared_ptr<const GraphDef>>
      value;

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&value);
  }
};

struct NamedAttr {
  std::string name;
  AttrValue value;
};

// The attribute of that name; null if there is none.
const AttrValue* find_attr(const Attributes& attrs, std::string_view name);
// Its value if it is of the kind T, else null.
template <typename T>
const T* find_attr(const Attributes& attrs, std::string_view name) {
  const AttrValue* attr = find_attr(attrs, name);
  return attr == nullptr ? nullptr : attr->get<T>();
}

// Where an operator reads an operand: result `index` of the operator named `producer`.
struct InputRef {
  static constexpr int32_t kControl = -1;  // an order without data
  std::string producer;                    // empty: an optional input that is absent
  int32_t index = 0;

  bool is_absent() const { return producer.empty(); }
  bool is_control() const { return index == kControl; }
};

struct OpDef {
  std::string name;
  std::string type;
  std::vector<InputRef> inputs;  // in the order of the wire
  std::vector<TensorDesc> input_descs;
  std::vector<TensorDesc> output_descs;
  Attributes attrs;
};

struct GraphDef {
  std::string name;
  std::vector<OpDef> ops;
  Attributes attrs;
};

struct Model {
  std::string name;
  uint32_t version = 0;
  std::string custom_version;
  std::vector<GraphDef> graphs;
  Attributes attrs;
  std::shared_ptr<const void> owner;  // keeps the bytes alive to which views above refer
};

}  // namespace npugraph::ge
