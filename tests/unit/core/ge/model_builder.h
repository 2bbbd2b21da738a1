// SPDX-License-Identifier: Apache-2.0
// Writes serialised models for tests, with the field numbers of package ge.proto.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <protozero/pbf_writer.hpp>

#include "ge/model.h"
#include "ge/wire.h"

namespace npugraph::ge {

using protozero::pbf_writer;

// A message under construction.
class Message {
 public:
  template <typename Write>
  Message& with(Write&& write) {
    pbf_writer writer(bytes_);
    write(writer);
    return *this;
  }
  Message& text(uint32_t field, const std::string& value) {
    return with([&](pbf_writer& w) { w.add_string(field, value); });
  }
  Message& integer(uint32_t field, int64_t value) {
    return with([&](pbf_writer& w) { w.add_int64(field, value); });
  }
  Message& number(uint32_t field, float value) {
    return with([&](pbf_writer& w) { w.add_float(field, value); });
  }
  Message& boolean(uint32_t field, bool value) {
    return with([&](pbf_writer& w) { w.add_bool(field, value); });
  }
  Message& message(uint32_t field, const Message& value) {
    return with([&](pbf_writer& w) { w.add_message(field, value.bytes_); });
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline Message attr_of(int64_t value) { return Message().integer(3, value); }
inline Message attr_of(float value) { return Message().number(4, value); }
inline Message attr_of(bool value) { return Message().boolean(5, value); }
inline Message attr_of(const char* value) { return Message().text(2, value); }
inline Message attr_of(const std::vector<int64_t>& values) {
  Message list;
  list.with([&](pbf_writer& w) { w.add_packed_int64(3, values.begin(), values.end()); }).integer(20, 2);
  return Message().message(1, list);
}

inline Message desc(const std::string& name, WireType dtype, const std::vector<int64_t>& dims) {
  Message shape;
  shape.with([&](pbf_writer& w) { w.add_packed_int64(1, dims.begin(), dims.end()); });
  return Message().text(1, name).integer(2, static_cast<int64_t>(dtype)).message(3, shape).text(4, "ND");
}

// One operator. Inputs are written as on the wire: "producer:0", "" for an absent one.
class Op {
 public:
  Op(const std::string& type, const std::string& name, const std::vector<std::string>& inputs = {}) {
    message_.text(1, name).text(2, type);
    for (const std::string& input : inputs) message_.text(5, input);
  }
  template <typename Value>
  Op&& attr(const std::string& name, const Value& value) && {
    message_.message(10, Message().text(1, name).message(2, attr_of(value)));
    return std::move(*this);
  }
  Op&& attr_message(const std::string& name, const Message& value) && {
    message_.message(10, Message().text(1, name).message(2, value));
    return std::move(*this);
  }
  Op&& input(const Message& desc) && {
    message_.message(33, desc);
    return std::move(*this);
  }
  Op&& output(const Message& desc) && {
    message_.message(34, desc);
    return std::move(*this);
  }
  const Message& message() const { return message_; }

 private:
  Message message_;
};

inline Op data(const std::string& name, int64_t index, const std::vector<int64_t>& dims,
               WireType dtype = WireType::kFloat) {
  return Op("Data", name).attr("index", index).output(desc("y", dtype, dims));
}

template <typename T>
Op constant(const std::string& name, WireType dtype, const std::vector<int64_t>& dims, const std::vector<T>& elements) {
  std::string bytes(elements.size() * sizeof(T), '\0');
  if (!elements.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  const Message tensor = Message().message(1, desc("", dtype, dims)).text(2, bytes);
  return Op("Const", name).attr_message("value", Message().message(12, tensor)).output(desc("y", dtype, dims));
}

inline Op int_list(const std::string& name, const std::vector<int64_t>& elements) {
  return constant(name, WireType::kInt64, {static_cast<int64_t>(elements.size())}, elements);
}

inline Message graph_of(const std::vector<Op>& ops, const std::string& name = "g") {
  Message graph = Message().text(1, name);
  for (const Op& op : ops) graph.message(6, op.message());
  return graph;
}

// The attribute of an operator with the graph of its parts.
inline Message parts_of(const std::vector<Op>& ops) { return Message().message(13, graph_of(ops, "parts")); }

inline std::string serialise(const std::vector<Op>& ops, const std::string& name = "g") {
  return Message().text(1, "model").message(7, graph_of(ops, name)).bytes();
}

// Reads the model back; it keeps the bytes alive.
inline Model model_of(const std::vector<Op>& ops) {
  auto bytes = std::make_shared<const std::string>(serialise(ops));
  return parse_model(std::as_bytes(std::span(*bytes)), bytes, "test");
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace npugraph::ge
