// SPDX-License-Identifier: Apache-2.0
// npugraph-opt: runs named passes on graphs in text form, and lowers and plans them. The tests of the text form, of
// every pass, of lowering and of planning are its main users.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/error.h"
#include "compiler/request.h"
#include "ir/alias.h"
#include "ir/text.h"
#include "lower/groups.h"
#include "lower/lower.h"
#include "lower/super_kernels.h"
#include "ops/table.h"
#include "passes/pass.h"
#include "plan/plan.h"
#include "program/text.h"
#include "tools/command_line.h"
#include "tools/text_catalog.h"

namespace npugraph {
namespace {

// Separates the graphs of a file.
constexpr std::string_view kSeparator = "// -----";

// Stages in the order of the compiler; each includes those before it.
const std::vector<std::string> kStages = {"passes", "lower", "scopes", "groups", "plan"};

struct Options {
  std::string input = "-";
  std::string output = "-";
  std::string to = kStages.front();
  std::string catalog;  // a file; empty: the host runs everything and has no variants with out arguments
  std::vector<std::string> passes;
  bool whole_concatenations = false;
  bool task_names = false;
  int64_t super_kernel_workers = 0;
  bool verify_each = false;
  bool print_after_all = false;
  bool stats = false;
  bool list_passes = false;
  bool uses = false;
  bool aliases = false;
  bool compare_types = false;
  bool training = false;
  bool fuses = false;
  bool expect_errors = false;
};

std::string read_all(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(cat("cannot read '", path, "'"));
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_all(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    return;
  }
  std::ofstream file(path, std::ios::binary);
  if (!(file << text).flush()) throw UserError(cat("cannot write '", path, "'"));
}

// The graphs of a file; each keeps its line numbers by a prefix of empty lines.
std::vector<std::string> split_graphs(std::string_view text) {
  std::vector<std::string> graphs(1);
  int64_t lines = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    ++lines;
    if (line.starts_with(kSeparator)) {
      graphs.emplace_back(lines, '\n');
    } else {
      graphs.back().append(line);
    }
    text.remove_prefix(end);
  }
  return graphs;
}

void check(const ir::Graph& graph) {
  if (const std::string error = ir::verify(graph); !error.empty()) throw UserError(error);
  if (const std::string error = ops::verify_types(graph); !error.empty()) throw UserError(error);
}

void print_uses(const ir::Graph& graph, std::string& out) {
  const ir::Uses uses = ir::find_uses(graph);
  for (ir::ValueId id = 0; id < graph.num_values(); ++id) {
    out += cat("uses %", graph.value(id).name, ":");
    for (const ir::NodeId user : uses.users[id]) out += cat(" ", uses.position[user]);
    if (uses.output_uses[id] > 0) out += cat(" returned ", uses.output_uses[id]);
    out += '\n';
  }
}

void print_aliases(const ir::Graph& graph, std::string& out) {
  const ir::AliasInfo aliases(graph);
  for (ir::ValueId id = 0; id < graph.num_values(); ++id) {
    const auto& place = aliases.placement(id);
    out += cat("alias %", graph.value(id).name, ": root %", graph.value(aliases.root(id)).name, " at ",
               place.placed ? place.byte_offset.str() : "?", ", overlaps");
    for (const ir::ValueId other : aliases.members(aliases.root(id))) {
      if (other != id && aliases.may_overlap(id, other)) {
        out += cat(aliases.same_view(id, other) ? " =%" : " %", graph.value(other).name);
      }
    }
    out += '\n';
  }
}

void print_stats(const std::vector<passes::PassRecord>& records, const passes::PassContext& context) {
  for (const auto& record : records) {
    std::cerr << record.name << ": " << record.hits << " hits, " << record.milliseconds << " ms\n";
  }
  for (const auto& remark : context.remarks) {
    std::cerr << "remark: " << remark.pass << ": " << remark.node << ": " << remark.message << "\n";
  }
}

bool reaches(const Options& options, std::string_view stage) {
  return std::ranges::find(kStages, stage) <= std::ranges::find(kStages, options.to);
}

tools::TextCatalog read_catalog(const Options& options) {
  if (options.catalog.empty()) return {};
  return {read_all(options.catalog), options.catalog};
}

program::Program make_program(const ir::Graph& graph, const Options& options, const tools::TextCatalog& catalog) {
  lower::Lowered lowered =
      lower::lower(graph, catalog, {.generate = options.fuses, .place_parts = !options.whole_concatenations});
  if (reaches(options, "scopes"))
    lower::merge_scopes(lowered.program, lowered.notes, {.workers = options.super_kernel_workers});
  if (reaches(options, "groups")) lower::group_tasks(lowered.program, lowered.notes, target::Target{});
  if (reaches(options, "plan")) {
    plan::plan(lowered.program);
    if (const std::string error = program::verify(lowered.program); !error.empty()) throw UserError(error);
  }
  return std::move(lowered.program);
}

// "default" stands for the passes of the compiler.
std::vector<passes::Pass> pipeline_of(const Options& options) {
  std::vector<std::string> names;
  for (const std::string& name : options.passes) {
    const std::vector<std::string> more = name == "default" ? compiler::default_passes() : std::vector{name};
    names.insert(names.end(), more.begin(), more.end());
  }
  return passes::find_passes(names);
}

std::string run(const std::string& text, const Options& options, const tools::TextCatalog& catalog) {
  ir::Graph graph = ir::parse(text, options.input == "-" ? "<stdin>" : options.input, ops::registry());
  std::string out;
  if (options.compare_types) {
    for (const std::string& line : ops::compare_types(graph)) out += cat(line, "\n");
    return out;
  }
  check(graph);
  const std::vector<passes::Pass> pipeline = pipeline_of(options);

  passes::PassContext context;
  context.training = options.training;
  context.fuses = options.fuses;
  passes::DriverOptions driver;
  driver.verify = options.verify_each;
  if (options.print_after_all) {
    driver.after = [&out](const passes::Pass& pass, const ir::Graph& after, const passes::PassRecord& record) {
      out += cat("// after ", pass.name, ", ", record.hits, " hits\n", ir::print(after));
    };
  }
  const auto records = passes::run_passes(graph, pipeline, context, driver);
  check(graph);
  if (options.stats) print_stats(records, context);
  if (reaches(options, "lower")) {
    const program::Program program = make_program(graph, options, catalog);
    return out + (options.task_names ? cat("@", program.name, ": ", program::print_task_names(program), "\n")
                                     : program::print(program));
  }
  if (!options.print_after_all || pipeline.empty()) out += ir::print(graph);
  if (options.uses) print_uses(graph, out);
  if (options.aliases) print_aliases(graph, out);
  return out;
}

int run_file(const Options& options) {
  const tools::TextCatalog catalog = read_catalog(options);
  std::string out;
  bool failed = false;
  for (const std::string& text : split_graphs(read_all(options.input))) {
    if (!out.empty()) out += cat(kSeparator, "\n");
    try {
      out += run(text, options, catalog);
    } catch (const std::exception& error) {
      failed = true;
      if (options.expect_errors) {
        out += cat("error: ", error.what(), "\n");
      } else {
        std::cerr << "npugraph-opt: " << error.what() << "\n";
      }
    }
  }
  write_all(options.output, out);
  return failed && !options.expect_errors ? 1 : 0;
}

void list_passes() {
  for (const auto& pass : passes::all_passes()) std::cout << pass.name << "  " << pass.summary << "\n";
}

void declare(CLI::App& app, Options& options) {
  app.add_option("input", options.input,
                 "file of graphs in text form, '-' for standard input; '// -----' lines separate graphs");
  app.add_option("-o,--output", options.output, "where to write, '-' for standard output");
  app.add_option("--passes", options.passes, "passes to run, in this order; 'default' stands for those of the compiler")
      ->delimiter(',');
  app.add_option("--to", options.to, "the last stage: lower, scopes, groups and plan print a Program")
      ->check(CLI::IsMember(kStages))
      ->capture_default_str();
  app.add_option("--catalog", options.catalog,
                 "file that says what the host's operators can do (src/core/tools/text_catalog.h)");
  app.add_flag("--task-names", options.task_names, "print the names of a Program's tasks alone");
  app.add_flag("--whole-concatenations", options.whole_concatenations,
               "compute no part of a concatenation where it stands in it");
  app.add_option("--super-kernel-workers", options.super_kernel_workers,
                 "threads that a super kernel may use at most; 0: all");
  app.add_flag("--verify-each", options.verify_each, "verify after each pass that hit");
  app.add_flag("--print-after-all", options.print_after_all, "print the graph after each pass");
  app.add_flag("--stats", options.stats, "hits, times and remarks of each pass, on standard error");
  app.add_flag("--training", options.training, "grad is on");
  app.add_flag("--fuses", options.fuses, "code will be generated");
  app.add_flag("--uses", options.uses, "also print the users of each value");
  app.add_flag("--aliases", options.aliases, "also print which memory each value is in");
  app.add_flag("--compare-types", options.compare_types,
               "print how the types of each node compare with the rule of its operator, and nothing else");
  app.add_flag("--expect-errors", options.expect_errors, "errors are output only: exit with 0");
  app.add_flag("--list-passes", options.list_passes, "list all passes and exit");
}

int main_checked(int argc, char** argv) {
  Options options;
  CLI::App app("Runs passes on npugraph graphs in text form, lowers and plans them.", "npugraph-opt");
  declare(app, options);
  if (argc == 1 && isatty(STDIN_FILENO) != 0) {
    std::cerr << app.help();
    return tools::kUsageError;
  }
  if (const auto code = tools::parse(app, argc, argv)) return *code;
  if (options.list_passes) {
    list_passes();
    return 0;
  }
  return run_file(options);
}

}  // namespace
}  // namespace npugraph

int main(int argc, char** argv) {
  try {
    return npugraph::main_checked(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "npugraph-opt: " << error.what() << "\n";
    return 1;
  }
}
