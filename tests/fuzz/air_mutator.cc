// SPDX-License-Identifier: Apache-2.0
#include "air_mutator.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "ge/import/rules.h"
#include "ge/ir/registry.h"

namespace npugraph::fuzz {

namespace {

using protozero::pbf_wire_type;

constexpr int64_t kNumbers[] = {0,         1,        2,  3,  4,       5,         7,         8,         9,
                                16,        -1,       -2, -3, 1 << 20, 1LL << 31, 1LL << 40, 1LL << 62, -(1LL << 31),
                                INT64_MAX, INT64_MIN};
constexpr float kFloats[] = {0.0f,
                             -0.0f,
                             1.0f,
                             -1.0f,
                             1e-30f,
                             1e30f,
                             std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};
constexpr std::string_view kTexts[] = {"",     ":",        "x:-1",    "x:-2", "x:99999999999", "a b",
                                       "NCHW", "\xff\xfe", "s0 // 0", "((((", "parameter",     "BSH"};

}  // namespace

struct AirMutator::Field {
  uint32_t number = 0;
  pbf_wire_type type = pbf_wire_type::varint;
  uint64_t bits = 0;
  std::string bytes;  // of what has a length

  bool has_length() const { return type == pbf_wire_type::length_delimited; }

  // nullopt for what is no message.
  static std::optional<std::vector<Field>> read(std::string_view message) {
    std::vector<Field> fields;
    try {
      protozero::pbf_reader in(message.data(), message.size());
      while (in.next()) {
        Field field{.number = in.tag(), .type = in.wire_type(), .bits = 0, .bytes = {}};
        switch (in.wire_type()) {
          case pbf_wire_type::varint: field.bits = in.get_uint64(); break;
          case pbf_wire_type::fixed32: field.bits = in.get_fixed32(); break;
          case pbf_wire_type::length_delimited: field.bytes = in.get_string(); break;
          default: return std::nullopt;
        }
        fields.push_back(std::move(field));
      }
    } catch (const protozero::exception&) {
      return std::nullopt;
    }
    return fields;
  }

  static std::string write(const std::vector<Field>& fields) {
    std::string message;
    protozero::pbf_writer out(message);
    for (const Field& field : fields) {
      switch (field.type) {
        case pbf_wire_type::varint: out.add_uint64(field.number, field.bits); break;
        case pbf_wire_type::fixed32: out.add_fixed32(field.number, static_cast<uint32_t>(field.bits)); break;
        default: out.add_string(field.number, field.bytes);
      }
    }
    return message;
  }
};

AirMutator::AirMutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {
  for (const std::string_view type : ge::ruled_types()) {
    types_.emplace_back(type);
    by_inputs_[ge::find_operator(type)->inputs.size()].emplace_back(type);
  }
  const auto collect = [&](auto& self, const std::string& bytes, Message message) -> void {
    const std::vector<Field> fields = Field::read(bytes).value();
    for (const Field& field : fields) {
      const Place place = place_of(message, field);
      if (place == Place::kInput) inputs_.back().push_back(field.bytes);
      if (place == Place::kText) texts_.push_back(field.bytes);
      const Message inner = message_in(message, field.number);
      if (field.has_length() && inner != Message::kNone) self(self, field.bytes, inner);
    }
  };
  for (const std::string& seed : seeds_) {
    inputs_.emplace_back();
    collect(collect, seed, Message::kModel);
  }
}

std::string AirMutator::make(uint64_t number) {
  random_.seed(number);
  seed_ = below(seeds_.size());
  std::string model = seeds_[seed_];
  for (size_t left = below(3) + 1; left > 0; --left) model = changed(model);
  return model;
}

// Numbers of fields of package ge.proto.
AirMutator::Message AirMutator::message_in(Message message, uint32_t field) {
  const auto pick = [field](std::initializer_list<std::pair<uint32_t, Message>> rows) {
    const auto* row = std::ranges::find(rows, field, &std::pair<uint32_t, Message>::first);
    return row == rows.end() ? Message::kNone : row->second;
  };
  switch (message) {
    case Message::kModel: return pick({{7, Message::kGraph}, {11, Message::kEntry}});
    case Message::kGraph: return pick({{6, Message::kOp}, {11, Message::kEntry}});
    case Message::kOp: return pick({{10, Message::kEntry}, {33, Message::kDesc}, {34, Message::kDesc}});
    case Message::kEntry: return pick({{2, Message::kAttr}});
    case Message::kAttr: return pick({{1, Message::kList}, {11, Message::kDesc}, {12, Message::kTensor}});
    case Message::kDesc: return pick({{3, Message::kShape}, {5, Message::kEntry}});
    case Message::kTensor: return pick({{1, Message::kDesc}});
    default: return Message::kNone;
  }
}

AirMutator::Place AirMutator::place_of(Message message, const Field& field) {
  if (field.type == pbf_wire_type::varint) return Place::kNumber;
  if (field.type == pbf_wire_type::fixed32) return Place::kFloat;
  if (message == Message::kOp && field.number == 2) return Place::kType;
  if (message == Message::kOp && field.number == 5) return Place::kInput;
  if (message == Message::kTensor && field.number == 2) return Place::kData;
  const bool is_ints =
      (message == Message::kShape && field.number == 1) || (message == Message::kList && field.number == 3);
  if (is_ints) return Place::kInts;
  return message_in(message, field.number) == Message::kNone ? Place::kText : Place::kNone;
}

int64_t AirMutator::number() {
  return chance(0.9) ? kNumbers[below(std::size(kNumbers))] : static_cast<int64_t>(random_());
}

std::string AirMutator::changed(const std::string& model) {
  // Numbers and inputs change what a graph means; other texts mostly make it a wrong one.
  static constexpr std::pair<Place, size_t> kWeights[] = {{Place::kFields, 4}, {Place::kType, 3}, {Place::kInput, 4},
                                                          {Place::kText, 1},   {Place::kInts, 5}, {Place::kNumber, 5},
                                                          {Place::kFloat, 1},  {Place::kData, 5}, {Place::kNone, 1}};
  size_t total = 0;
  for (const auto& [place, weight] : kWeights) total += weight;
  size_t left = below(total);
  const auto* chosen = std::begin(kWeights);
  for (; left >= chosen->second; ++chosen) left -= chosen->second;
  if (chosen->first == Place::kNone) return changed_bytes(model);
  Walk count;
  walked(model, Message::kModel, count);
  const size_t places = count.seen[static_cast<size_t>(chosen->first)];
  if (places == 0) return changed_bytes(model);
  Walk walk{.kind = chosen->first, .index = below(places), .seen = {}};
  return walked(model, Message::kModel, walk);
}

std::string AirMutator::walked(const std::string& bytes, Message message, Walk& walk) {
  auto fields = Field::read(bytes);
  if (!fields) return bytes;
  if (!fields->empty() && walk.is_here(Place::kFields)) change_fields(*fields);
  for (Field& field : *fields) {
    const Message inner = message_in(message, field.number);
    const Place place = place_of(message, field);
    if (field.has_length() && inner != Message::kNone) {
      field.bytes = walked(field.bytes, inner, walk);
    } else if (walk.is_here(place)) {
      change(field, place);
    }
  }
  return Field::write(*fields);
}

void AirMutator::change_fields(std::vector<Field>& fields) {
  const size_t at = below(fields.size()), other = below(fields.size());
  switch (below(4)) {
    case 0: fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: {
      Field copy = fields[at];
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(other), std::move(copy));
      break;
    }
    case 2: std::swap(fields[at], fields[other]); break;
    case 3: fields[at].number = fields[other].number; break;
  }
}

void AirMutator::change(Field& field, Place place) {
  switch (place) {
    case Place::kNumber: field.bits = static_cast<uint64_t>(number()); break;
    case Place::kFloat: {
      uint32_t bits = 0;
      std::memcpy(&bits, &kFloats[below(std::size(kFloats))], sizeof bits);
      field.bits = bits;
      break;
    }
    case Place::kType: field.bytes = other_type(field.bytes); break;
    case Place::kInput: field.bytes = other_text(field.bytes, inputs_[seed_]); break;
    case Place::kInts: field.bytes = changed_ints(field.bytes); break;
    case Place::kData: field.bytes = changed_data(field.bytes); break;
    default: field.bytes = other_text(field.bytes, texts_);
  }
}

std::string AirMutator::other_text(const std::string& text, const std::vector<std::string>& pool) {
  if (chance(0.85)) return pool[below(pool.size())];
  if (chance(0.7)) return std::string(kTexts[below(std::size(kTexts))]);
  return changed_bytes(text);
}

// Mostly a type with as many inputs, which more often is an operator that runs.
std::string AirMutator::other_type(const std::string& type) {
  const ge::IrOperator* known = ge::find_operator(type);
  const auto alike = known == nullptr ? by_inputs_.end() : by_inputs_.find(known->inputs.size());
  return other_text(type, alike != by_inputs_.end() && chance(0.8) ? alike->second : types_);
}

std::string AirMutator::changed_ints(const std::string& packed) {
  std::vector<int64_t> numbers;
  for (const char *at = packed.data(), *end = at + packed.size(); at != end;) {
    try {
      numbers.push_back(static_cast<int64_t>(protozero::decode_varint(&at, end)));
    } catch (const protozero::exception&) {
      return changed_bytes(packed);
    }
  }
  const size_t at = below(numbers.size());
  const size_t how = numbers.empty() ? 2 : below(4);
  if (how == 0) numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(at));
  if (how == 1 || how == 3) numbers[at] = number();
  if (how == 2) numbers.insert(numbers.begin() + static_cast<std::ptrdiff_t>(at), number());
  std::string bytes;
  for (const int64_t value : numbers) protozero::write_varint(std::back_inserter(bytes), static_cast<uint64_t>(value));
  return bytes;
}

// Elements of a constant. Those of shapes and axes are integers of 64 bits.
std::string AirMutator::changed_data(std::string data) {
  if (data.size() < sizeof(int64_t) || chance(0.2)) return changed_bytes(std::move(data));
  const int64_t value = number();
  std::memcpy(&data[below(data.size() / sizeof value) * sizeof value], &value, sizeof value);
  return data;
}

std::string AirMutator::changed_bytes(std::string bytes) {
  const size_t at = below(bytes.size() + 1);
  const size_t length = std::min(below(16), bytes.size() - at);
  switch (below(4)) {
    case 0: bytes.erase(at, length); break;
    case 1: bytes.insert(below(bytes.size() + 1), bytes.substr(at, length)); break;
    case 2: bytes.resize(at); break;
    case 3:
      if (at < bytes.size()) bytes[at] = static_cast<char>(random_());
      break;
  }
  return bytes;
}

}  // namespace npugraph::fuzz
