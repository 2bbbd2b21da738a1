// SPDX-License-Identifier: Apache-2.0
// Artifact::explain(): one page about a compile, for a person.
#include <algorithm>
#include <functional>
#include <iomanip>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/words.h"
#include "compiler/artifact.h"
#include "runtime/observation.h"

namespace npugraph::compiler {

namespace {

std::string human_bytes(int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 3) value /= 1024, ++unit;
  std::ostringstream out;
  out << std::fixed << std::setprecision(unit == 0 ? 0 : 1) << value << " " << units[unit];
  return out.str();
}

// Bytes as a number; before the first call, as a formula of its sizes.
std::string bytes_text(const Expr& bytes) {
  return bytes.as_int() ? human_bytes(*bytes.as_int()) : cat(bytes.str(), " B");
}

// "-" where nothing was measured.
std::string percent(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  std::ostringstream out;
  out << std::fixed << std::setprecision(0) << 100.0 * static_cast<double>(part) / static_cast<double>(whole) << " %";
  return out.str();
}

struct Share {
  int64_t tasks = 0;
  int64_t bytes = 0;
  int64_t ns = 0;
};

Share total_of(const std::map<std::string, Share>& shares) {
  Share total;
  for (const auto& [key, share] : shares) {
    total.tasks += share.tasks;
    total.bytes += share.bytes;
    total.ns += share.ns;
  }
  return total;
}

void print_shares(std::ostringstream& out, const std::map<std::string, Share>& shares) {
  const Share total = total_of(shares);
  for (const auto& [kind, share] : shares) {
    out << "  " << std::left << std::setw(12) << kind << std::right << std::setw(6) << share.tasks
        << (share.tasks == 1 ? " task  " : " tasks ") << std::setw(6) << percent(share.ns, total.ns) << " of the time "
        << std::setw(6) << percent(share.bytes, total.bytes) << " of the bytes (" << human_bytes(share.bytes) << ")\n";
  }
}

// The most time first.
void print_slowest(std::ostringstream& out, const std::vector<TaskInfo>& tasks, size_t most) {
  std::vector<const TaskInfo*> sorted;
  int64_t total = 0;
  for (const TaskInfo& task : tasks) {
    total += task.nanoseconds;
    if (task.nanoseconds > 0) sorted.push_back(&task);
  }
  if (sorted.empty()) return;
  out << "\nThe tasks that take most time\n";
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const TaskInfo* a, const TaskInfo* b) { return a->nanoseconds > b->nanoseconds; });
  if (sorted.size() > most) sorted.resize(most);
  for (const TaskInfo* task : sorted) {
    out << "  " << std::fixed << std::setprecision(1) << std::setw(10) << static_cast<double>(task->nanoseconds) / 1e3
        << " us " << std::setw(6) << percent(task->nanoseconds, total) << "  " << task->name
        << (task->source.empty() ? "" : cat(" at ", task->source)) << "\n";
  }
}

// "12x aten.add.out: why", the most time first, at most `most` lines.
void print_reasons(std::ostringstream& out, const std::vector<TaskInfo>& tasks, size_t most) {
  std::map<std::pair<std::string, std::string>, Share> groups;
  for (const TaskInfo& task : tasks) {
    if (task.reason.empty()) continue;
    Share& share = groups[{task.name, task.reason}];
    ++share.tasks;
    share.ns += task.nanoseconds;
  }
  if (groups.empty()) return;
  out << "\nWhat is not generated code, and why\n";
  std::vector<std::pair<std::pair<std::string, std::string>, Share>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.ns, a.second.tasks) > std::pair(b.second.ns, b.second.tasks);
  });
  for (size_t i = 0; i < sorted.size() && i < most; ++i) {
    out << "  " << std::setw(4) << sorted[i].second.tasks << "x " << sorted[i].first.first << ": "
        << sorted[i].first.second << "\n";
  }
  if (sorted.size() > most)
    out << "  ... and " << counted(static_cast<int64_t>(sorted.size() - most), "more operator") << "\n";
}

void print_passes(std::ostringstream& out, const std::vector<passes::PassRecord>& passes,
                  const std::vector<passes::Remark>& remarks, size_t most) {
  std::map<std::string, int> hits, texts;
  for (const passes::PassRecord& pass : passes) {
    if (pass.hits > 0) hits[pass.name] += pass.hits;
  }
  for (const passes::Remark& remark : remarks) ++texts[remark.pass + ": " + remark.message];
  if (hits.empty() && texts.empty()) return;
  out << "\nWhat the passes did\n";
  for (const auto& [pass, count] : hits)
    out << "  " << std::left << std::setw(26) << pass << std::right << count << "\n";
  size_t shown = 0;
  for (const auto& [text, count] : texts) {
    if (shown++ == most) break;
    out << "  " << std::setw(4) << count << "x " << text << "\n";
  }
  if (texts.size() > most) out << "  ... and " << texts.size() - most << " more\n";
}

// "block: 5 tasks became 2 super kernels and 1 task; cut by aten.topk at model.py:12"
void print_scopes(std::ostringstream& out, const std::vector<lower::ScopeResult>& scopes) {
  if (!scopes.empty()) out << "\nSuper kernels\n";
  for (const lower::ScopeResult& scope : scopes) {
    out << "  " << scope.scope << ": " << counted(scope.tasks, "task") << " became "
        << counted(scope.super_kernels, "super kernel");
    if (scope.left > 0) out << " and " << counted(scope.left, "task");
    for (const std::string& cut : scope.cuts) out << "\n    cut by " << cut << ", which is not generated code";
    out << "\n";
  }
}

// "2x_matmul.mm run at the same time, which saves 1.4 us"
void print_groupings(std::ostringstream& out, const std::vector<lower::Grouping>& groupings, size_t most) {
  if (!groupings.empty()) out << "\nTasks that do not depend on each other\n";
  for (size_t i = 0; i < groupings.size() && i < most; ++i) {
    const lower::Grouping& grouping = groupings[i];
    out << "  " << grouping.tasks << (*grouping.reason == '\0' ? ": one task, saves about " : ": apart, could save ")
        << std::fixed << std::setprecision(1) << std::max(grouping.saved_ns, 0.0) / 1e3 << " us of two threads"
        << (*grouping.reason == '\0' ? "" : ": ") << grouping.reason << "\n";
  }
  if (groupings.size() > most) out << "  ... and " << groupings.size() - most << " more\n";
}

constexpr size_t kMostLines = 20;
constexpr size_t kMostConflicts = 8;
constexpr size_t kSlowest = 5;
constexpr size_t kMostLive = 8;

// Equal entries, printed as one line.
struct Alike {
  std::string what;
  int64_t count = 0;
  Expr bytes;
};

class Lines {
 public:
  void add(const std::string& what, const Expr& bytes) {
    Alike& line = lines_.try_emplace(what, Alike{.what = what, .bytes = {}}).first->second;
    ++line.count;
    line.bytes = line.bytes + bytes;
  }
  // Most bytes first; those that are not known yet come last.
  std::vector<Alike> sorted() const {
    std::vector<Alike> sorted;
    for (const auto& [what, line] : lines_) sorted.push_back(line);
    std::ranges::stable_sort(sorted, std::greater(), [](const Alike& line) { return line.bytes.as_int().value_or(0); });
    return sorted;
  }

 private:
  std::map<std::string, Alike> lines_;
};

// Prints the pairs of operators that could have been one loop but are not.
void print_left_apart(std::ostringstream& out, const std::vector<lower::LeftApart>& pairs) {
  Lines lines;
  for (const lower::LeftApart& pair : pairs)
    lines.add(cat(pair.producer, " -> ", pair.consumer, ": ", pair.reason), pair.bytes);
  const std::vector<Alike> sorted = lines.sorted();
  for (size_t i = 0; i < sorted.size() && i < kMostConflicts; ++i) {
    out << "  " << std::setw(4) << sorted[i].count << "x left apart, " << bytes_text(sorted[i].bytes)
        << " are loaded again: " << sorted[i].what << "\n";
  }
}

}  // namespace

// Prints the share of generated code, and the bytes that clusters save, most first; tasks of equal names are one line.
void Artifact::print_generated(std::ostringstream& out, const std::vector<TaskInfo>& tasks) const {
  Share all, generated;
  Lines lines;
  for (size_t i = 0; i < tasks.size(); ++i) {
    all.ns += tasks[i].nanoseconds;
    if (!program::is_generated(program_->tasks[i].kind)) continue;
    ++generated.tasks;
    generated.ns += tasks[i].nanoseconds;
    if (!tasks[i].saved_bytes.is_int(0)) lines.add(tasks[i].name, tasks[i].saved_bytes);
  }
  out << "  " << generated.tasks << " of " << counted(std::ssize(tasks), "task") << ", "
      << percent(generated.ns, all.ns) << " of the time\n";
  const std::vector<Alike> sorted = lines.sorted();
  for (size_t i = 0; i < sorted.size() && i < kMostLines; ++i) {
    out << "  " << std::setw(4) << sorted[i].count << "x " << sorted[i].what << ": fusion saves "
        << bytes_text(sorted[i].bytes) << "\n";
  }
  if (sorted.size() > kMostLines) out << "  ... and " << sorted.size() - kMostLines << " more\n";
  print_left_apart(out, left_apart());
}

std::string Artifact::title(const InPieces& in_pieces) const {
  const runtime::Counters run = runtime::Observation(*executable_).counters();
  const int64_t in_graphs = run.captures_in_graphs + in_pieces.captures;
  return cat(name(), ": ", counted(std::ssize(program_->tasks), "task"), ", ",
             counted(std::ssize(program_->inputs), "input"), ", ", counted(std::ssize(program_->outputs), "output"),
             ", ", counted(std::ssize(program_->symbols), "symbol"), "; captured ", counted(run.captures, "time"),
             in_graphs == 0 ? "" : cat(" on its own and ", counted(in_graphs, "time"), " as part of a torch.npu.graph"),
             ", run ", counted(run.replays + run.eager_runs + in_pieces.runs, "time"),
             run.eager_runs == 0 ? "" : cat(", ", run.eager_runs, " of them without a capture of its own"),
             in_pieces.runs == 0 ? "" : cat(", ", in_pieces.runs, " of them in pieces (below)"), "\n");
}

// Total size of the parameters that tasks read, without those of symbolic size.
int64_t Artifact::weight_bytes() const {
  int64_t bytes = 0;
  for (const program::Buffer& buffer : program_->buffers) {
    const bool read = buffer.cls == program::BufferClass::kParameter && buffer.first_task != program::kNone;
    if (read && buffer.bytes.is_constant()) bytes += buffer.bytes.constant;
  }
  return bytes;
}

void Artifact::print_memory(std::ostringstream& out, const std::vector<TaskInfo>& tasks) const {
  const runtime::MemoryInfo memory = runtime::Observation(*executable_).memory();
  out << "  arena " << human_bytes(memory.arena_bytes) << " (no plan can need less than "
      << human_bytes(memory.lower_bound_bytes) << ", without workspaces " << human_bytes(memory.live_bytes)
      << "), heap " << human_bytes(memory.heap_bytes) << ", scratch " << human_bytes(memory.scratch_bytes)
      << ", derived constants " << human_bytes(memory.derived_constant_bytes) << "\n";
  out << "  copied per replay " << human_bytes(memory.copied_bytes_per_replay) << ", bound per call "
      << human_bytes(memory.bound_bytes_per_call) << ", of the model " << human_bytes(weight_bytes()) << "\n";
  print_peak(out, tasks);
}

// Prints the buffers that are alive when most bytes are, the largest first.
void Artifact::print_peak(std::ostringstream& out, const std::vector<TaskInfo>& tasks) const {
  const std::optional<runtime::LivePeak> peak = runtime::Observation(*executable_).live_peak();
  if (!peak) return;
  const auto place = [&](int32_t task) {
    return cat(tasks[task].name, tasks[task].source.empty() ? "" : cat(" at ", tasks[task].source));
  };
  out << "  at most " << human_bytes(peak->bytes) << " live at once, "
      << (peak->task ? cat("in ", place(*peak->task)) : "when all has run") << ":\n";
  int64_t others = 0;
  for (size_t i = 0; i < peak->buffers.size(); ++i) {
    const program::Buffer& buffer = program_->buffers[peak->buffers[i].buffer];
    if (i >= kMostLive) {
      others += peak->buffers[i].bytes;
      continue;
    }
    const bool returned = buffer.cls == program::BufferClass::kOutput;
    out << std::setw(12) << human_bytes(peak->buffers[i].bytes) << (returned ? "  result" : "");
    if (buffer.first_task != program::kNone) out << "  made by " << place(buffer.first_task);
    if (!returned && buffer.last_task != program::kNone) out << ", last used by " << place(buffer.last_task);
    out << "\n";
  }
  if (peak->buffers.size() > kMostLive)
    out << "  ... and " << peak->buffers.size() - kMostLive << " more, " << human_bytes(others) << "\n";
}

std::string Artifact::explain(const InPieces& in_pieces) const {
  std::ostringstream out;
  const std::vector<TaskInfo> infos = tasks();
  out << title(in_pieces);
  std::map<std::string, Share> shares;
  for (const TaskInfo& task : infos) {
    Share& share = shares[task.kind];
    ++share.tasks;
    share.bytes += task.bytes_read + task.bytes_written;
    share.ns += task.nanoseconds;
  }
  if (!infos.empty()) {
    out << "\nWhere time and bytes go\n";
    print_shares(out, shares);
    if (total_of(shares).ns == 0) {
      out << (request_.run.calls.capture ? "  (no times yet: call again with the same sizes)\n"
                                         : "  (no times: without captures nothing is run a second time)\n");
    }
    print_slowest(out, infos, kSlowest);
    out << "\nGenerated code\n";
    print_generated(out, infos);
  }
  print_scopes(out, result_.scopes);
  print_groupings(out, result_.groupings, kMostLines);
  if (static_kernels_) {
    out << "\nStatic kernels\n";
    for (const std::string& line : static_kernels_->lines()) out << "  " << line << "\n";
  }

  print_passes(out, result_.passes, result_.remarks, kMostLines);
  print_reasons(out, infos, kMostLines);

  out << "\nMemory\n";
  print_memory(out, infos);

  if (!partitions_.empty()) out << "\nNot captured\n";
  for (const Partition& part : partitions_) {
    out << "  " << part.target << " at " << part.source << " runs as " << part.runs_as << ": " << part.reason << "\n";
  }

  out << "\nCompile time\n";
  for (const PhaseTime& phase : result_.phases) {
    out << "  " << std::left << std::setw(26) << phase.name << std::right << std::fixed << std::setprecision(1)
        << phase.milliseconds << " ms\n";
  }
  return out.str();
}

}  // namespace npugraph::compiler
