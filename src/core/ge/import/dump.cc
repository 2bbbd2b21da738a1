// SPDX-License-Identifier: Apache-2.0
#include "ge/import/dump.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <initializer_list>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "ops/operators.h"

namespace npugraph::ge {

namespace {

constexpr std::string_view kEnabled = "ge.exec.enableDump", kPath = "ge.exec.dumpPath", kMode = "ge.exec.dumpMode",
                           kSteps = "ge.exec.dumpStep", kLayers = "ge.exec.dumpLayer", kData = "ge.exec.dumpData",
                           kFile = "ge_dump_with_acl_config";

// A setting, with the name by which errors call it.
struct Setting {
  std::string name;
  std::string value;
};

void expect(const Setting& setting, std::initializer_list<std::string_view> allowed) {
  if (std::ranges::count(allowed, setting.value) > 0) return;
  std::string words;
  for (const std::string_view word : allowed) words += cat(words.empty() ? "'" : " or '", word, "'");
  throw UserError(cat(setting.name, " is ", words, ", got '", setting.value, "'"));
}

void set_mode(Dump& dump, const Setting& setting) {
  expect(setting, {"input", "output", "all"});
  dump.inputs = setting.value != "output";
  dump.outputs = setting.value != "input";
}

void set_data(Dump& dump, const Setting& setting) {
  expect(setting, {"tensor", "stats"});
  dump.statistics = setting.value == "stats";
}

// "0|2-5|7".
void set_steps(Dump& dump, const Setting& setting) {
  dump.steps.clear();
  const char* at = setting.value.data();
  const char* const end = at + setting.value.size();
  const auto number = [&] {
    int64_t read = 0;
    const auto [stop, error] = std::from_chars(at, end, read);
    if (error != std::errc() || read < 0)
      throw UserError(
          cat(setting.name, " is numbers and ranges of numbers such as '0|1|2-5', got '", setting.value, "'"));
    at = stop;
    return read;
  };
  while (at != end) {
    const int64_t first = number();
    const bool is_range = at != end && *at == '-';
    if (is_range) ++at;
    dump.steps.insert(dump.steps.end(), {first, is_range ? number() : first});
    if (at == end) return;
    if (*at != '|' || ++at == end) number();
  }
}

void set_layers(Dump& dump, std::string_view names) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (end > 0) dump.layers.emplace(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
}

// Settings of the form {"dump": {"dump_list": [{"model_name": "graph_1", "layer": ["Add_1"]}], "dump_mode": "output"}}.
class DumpFile {
 public:
  explicit DumpFile(std::string path) : path_(std::move(path)) {
    const MappedFile file = [&] {
      try {
        return map_file(path_);
      } catch (const UserError& error) {
        fail(error.what());
      }
    }();
    const auto bytes = file.bytes();
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const auto whole = nlohmann::json::parse(text, text + bytes.size(), nullptr, false);
    if (!whole.is_object() || !whole.contains("dump") || !whole["dump"].is_object())
      fail("it holds an object of JSON with an object 'dump'");
    settings_ = whole["dump"];
  }

  // False if it names models, and this one is not among them.
  bool apply(Dump& dump, const std::string& graph) const {
    bool takes_graph = true;
    for (const auto& [key, value] : settings_.items()) {
      if (key == "dump_list") {
        takes_graph = apply_list(dump, graph, value);
        continue;
      }
      const Setting setting{cat("'", key, "' in ", path_), text_of(key, value)};
      if (key == "dump_path")
        dump.directory = setting.value;
      else if (key == "dump_mode")
        set_mode(dump, setting);
      else if (key == "dump_data")
        set_data(dump, setting);
      else if (key == "dump_step")
        set_steps(dump, setting);
      else if (key == "dump_op_switch" || key == "dump_debug")
        expect(setting, {"off"});
      else
        fail(cat("there is no setting '", key,
                 "'; settings are dump_list, dump_path, dump_mode, dump_data and "
                 "dump_step"));
    }
    return takes_graph;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw UserError(cat("settings of a dump in ", path_, ": ", reason));
  }

  std::string text_of(const std::string& key, const nlohmann::json& value) const {
    if (!value.is_string()) fail(cat("'", key, "' is a text, got ", value.dump()));
    return value.get<std::string>();
  }

  bool apply_list(Dump& dump, const std::string& graph, const nlohmann::json& list) const {
    if (!list.is_array()) fail(cat("'dump_list' is a list, got ", list.dump()));
    bool takes_graph = list.empty();
    for (const auto& entry : list) {
      if (!entry.is_object()) fail(cat("an entry of 'dump_list' is an object, got ", entry.dump()));
      const bool is_this = !entry.contains("model_name") || text_of("model_name", entry["model_name"]) == graph;
      takes_graph = takes_graph || is_this;
      for (const auto& [key, value] : entry.items()) {
        if (key == "model_name") continue;
        if (key != "layer" || !value.is_array())
          fail(cat("an entry of 'dump_list' has 'model_name' and 'layer', a list of names, got '", key, "'"));
        for (const auto& name : value) {
          if (is_this) dump.layers.insert(text_of(key, name));
        }
      }
    }
    return takes_graph;
  }

  std::string path_;
  nlohmann::json settings_;
};

// A name of Ascend IR as a part of the name of a file, which 255 bytes are the most for.
std::string in_file_name(std::string_view name) {
  std::string text(name.substr(0, 100));
  for (char& c : text) {
    if (c == '/' || c == '\\' || c == '.' || c == ' ') c = '_';
  }
  return text;
}

bool is_marked(const OpDef& op) {
  const bool* marked = find_attr<bool>(op.attrs, attr::kDumped);
  return marked != nullptr && *marked;
}

std::vector<Expr> exprs_of(const std::vector<int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

// All but the place among the graphs of the process.
std::optional<Dump> settings_of(const EngineOptions& options, const std::string& graph) {
  const auto value = [&](std::string_view name, std::string_view otherwise = "") {
    const auto found = options.find(std::string(name));
    return Setting{cat("option '", name, "'"), std::string(found == options.end() ? otherwise : found->second)};
  };
  const Setting enabled = value(kEnabled, "0");
  expect(enabled, {"0", "1"});
  const std::string file = value(kFile).value;
  if (enabled.value == "0" && file.empty()) return std::nullopt;
  Dump dump{.directory = value(kPath, "./").value};
  set_mode(dump, value(kMode, "all"));
  set_data(dump, value(kData, "tensor"));
  set_steps(dump, value(kSteps));
  set_layers(dump, value(kLayers).value);
  if (!file.empty() && !DumpFile(file).apply(dump, graph)) return std::nullopt;
  return dump;
}

}  // namespace

const std::set<std::string_view>& dump_options() {
  static const std::set<std::string_view> names = {kEnabled, kPath, kMode, kSteps, kLayers, kData, kFile};
  return names;
}

void check_dump(const EngineOptions& options) { settings_of(options, ""); }

std::optional<Dump> dump_of(const EngineOptions& options, const std::string& graph, int64_t device) {
  static std::atomic<int64_t> graphs = 0;
  std::optional<Dump> dump = settings_of(options, graph);
  if (dump) dump->graph = cat(device, "/", in_file_name(graph), "/", ++graphs);
  return dump;
}

Dumps::Dumps(const Dump* dump, const GraphDef& def) : dump_(dump) {
  takes_all_ = dump != nullptr && dump->layers.empty() && std::ranges::none_of(def.ops, is_marked);
}

bool Dumps::has(const OpDef& op) const {
  if (dump_ == nullptr) return false;
  constexpr std::array<std::string_view, 5> kNoWork = {"Const", "Constant", "Data", "NetOutput", "RefData"};
  if (takes_all_) return std::ranges::count(kNoWork, op.type) == 0;
  return is_marked(op) || dump_->layers.contains(op.name);
}

void Dumps::add_inputs(Context& context, const OpDef& op, int64_t number, int32_t stream,
                       const std::vector<Operand*>& operands) const {
  if (dump_->inputs) add(context, op, number, stream, "input", operands);
}

void Dumps::add_outputs(Context& context, const OpDef& op, int64_t number, int32_t stream,
                        std::vector<Operand>& results) const {
  std::vector<Operand*> tensors;
  for (Operand& result : results) tensors.push_back(&result);
  if (dump_->outputs) add(context, op, number, stream, "output", tensors);
}

// Texts, and results that nothing computes, are no tensors.
void Dumps::add(Context& context, const OpDef& op, int64_t number, int32_t stream, const char* side,
                const std::vector<Operand*>& tensors) const {
  std::vector<TensorRef> refs;
  std::vector<int64_t> places;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr || !tensors[i]->is_set() || tensors[i]->text != nullptr) continue;
    refs.push_back({context.value_of(*tensors[i])});
    places.push_back(static_cast<int64_t>(i));
  }
  if (refs.empty()) return;
  const std::string name = cat(in_file_name(op.type), ".", in_file_name(op.name), ".", number, ".", stream);
  context.add_all(own::dump::op(), {refs, exprs_of(places), exprs_of(dump_->steps), dump_->directory, dump_->graph,
                                    name, std::string(side), Expr::constant(Scalar::of_bool(dump_->statistics))});
}

}  // namespace npugraph::ge
