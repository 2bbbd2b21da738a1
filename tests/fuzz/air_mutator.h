// SPDX-License-Identifier: Apache-2.0
// Random changes of serialised models that stay messages of protobuf, for the most part: fields are dropped, repeated,
// exchanged and changed, and the lengths around them are right.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace npugraph::fuzz {

class AirMutator {
 public:
  explicit AirMutator(std::vector<std::string> seeds);

  // The model of that number, which depends on nothing else: a seed with 1 to 3 changes.
  std::string make(uint64_t number);

 private:
  // Messages that have fields of interest.
  enum class Message : uint8_t { kModel, kGraph, kOp, kEntry, kAttr, kDesc, kShape, kTensor, kList, kNone };
  // What can be changed.
  enum class Place : uint8_t { kFields, kType, kInput, kText, kInts, kNumber, kFloat, kData, kNone };
  struct Field;
  // Visits all places of a model in order; changes the place of kind `kind` at which `index` others of it are passed.
  struct Walk {
    Place kind = Place::kNone;
    size_t index = 0;
    std::array<size_t, static_cast<size_t>(Place::kNone) + 1> seen{};

    bool is_here(Place place) { return seen[static_cast<size_t>(place)]++ == index && place == kind; }
  };

  static Message message_in(Message message, uint32_t field);
  static Place place_of(Message message, const Field& field);

  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  bool chance(double probability) { return std::uniform_real_distribution<>()(random_) < probability; }
  int64_t number();

  std::string changed(const std::string& model);
  std::string walked(const std::string& bytes, Message message, Walk& walk);
  void change_fields(std::vector<Field>& fields);
  void change(Field& field, Place place);
  std::string other_text(const std::string& text, const std::vector<std::string>& pool);
  std::string other_type(const std::string& type);
  std::string changed_ints(const std::string& packed);
  std::string changed_data(std::string data);
  std::string changed_bytes(std::string bytes);

  std::vector<std::string> seeds_;
  size_t seed_ = 0;                                       // of the model that is made
  std::vector<std::string> types_;                        // of operators that have rules
  std::map<size_t, std::vector<std::string>> by_inputs_;  // the same by the number of their inputs
  std::vector<std::vector<std::string>> inputs_;          // of each seed
  std::vector<std::string> texts_;                        // other ones of the seeds
  std::mt19937_64 random_;
};

}  // namespace npugraph::fuzz
