// SPDX-License-Identifier: Apache-2.0
#include "base/host_memory.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include <sys/mman.h>

#include "base/error.h"

namespace npugraph {

namespace {

constexpr int64_t kUnlimited = INT64_MAX;

std::atomic<bool (*)(int64_t)> memory_guard = nullptr;

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(std::move(word));
  return words;
}

// nullopt if `text` does not begin with an int64, as in "max".
std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<int64_t> number_in(const std::string& path) {
  const std::vector<std::string> lines = lines_of(path);
  return lines.empty() ? std::nullopt : number(lines.front());
}

// The sum of the rows `names` of a file of lines "name number".
int64_t sum_of_rows(const std::string& path, std::initializer_list<std::string_view> names) {
  int64_t sum = 0;
  for (const std::string& line : lines_of(path)) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() >= 2 && std::ranges::find(names, words[0]) != names.end()) sum += number(words[1]).value_or(0);
  }
  return sum;
}

// One hierarchy of cgroups that limits memory.
struct Hierarchy {
  std::string mount;  // the mount point
  std::string top;    // the cgroup that is mounted there; empty: the root
  bool is_v2 = false;
};

// A line of mountinfo: "id parent device root mount-point options [more ...] - type source options".
std::optional<Hierarchy> hierarchy_of(const std::vector<std::string>& words) {
  const auto dash = std::ranges::find(words, "-");
  if (words.size() < 5 || words.end() - dash < 4) return std::nullopt;
  const bool is_v2 = dash[1] == "cgroup2";
  const std::string with_commas = cat(",", dash[3], ",");
  if (!is_v2 && (dash[1] != "cgroup" || with_commas.find(",memory,") == with_commas.npos)) return std::nullopt;
  return Hierarchy{.mount = words[4], .top = words[3] == "/" ? "" : words[3], .is_v2 = is_v2};
}

// A line of /proc/self/cgroup: "number:controllers:path"; v2 has number 0 and no controllers.
std::optional<std::string> path_in(const Hierarchy& hierarchy, const std::string& line) {
  const size_t first = line.find(':'), second = line.find(':', first + 1);
  if (first == line.npos || second == line.npos) return std::nullopt;
  const std::string controllers = cat(",", line.substr(first + 1, second - first - 1), ",");
  if (hierarchy.is_v2 ? !line.starts_with("0::") : controllers.find(",memory,") == controllers.npos)
    return std::nullopt;
  std::string path = line.substr(second + 1);
  if (path == "/") path.clear();
  // The mount may show a part of the hierarchy, as in containers.
  const bool is_below =
      path.starts_with(hierarchy.top) && (path.size() == hierarchy.top.size() || path[hierarchy.top.size()] == '/');
  return is_below ? path.substr(hierarchy.top.size()) : std::string();
}

int64_t left_in(const std::string& directory, bool is_v2) {
  const auto limit = number_in(cat(directory, is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  const auto used = number_in(cat(directory, is_v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !used) return kUnlimited;
  const std::string stat = directory + "/memory.stat";
  const int64_t files = is_v2 ? sum_of_rows(stat, {"active_file", "inactive_file"})
                              : sum_of_rows(stat, {"total_active_file", "total_inactive_file"});
  return std::max<int64_t>(*limit - std::max<int64_t>(*used - files, 0), 0);
}

// The limits of all ancestors of a cgroup apply to it, too.
int64_t left_up_from(const Hierarchy& hierarchy, std::string path, const std::string& root) {
  int64_t left = left_in(cat(root, hierarchy.mount, path), hierarchy.is_v2);
  while (!path.empty()) {
    path.resize(path.rfind('/') == path.npos ? 0 : path.rfind('/'));
    left = std::min(left, left_in(cat(root, hierarchy.mount, path), hierarchy.is_v2));
  }
  return left;
}

int64_t available(const std::string& root) {
  for (const std::string& line : lines_of(root + "/proc/meminfo")) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() < 2 || words[0] != "MemAvailable:") continue;
    const auto kilobytes = number(words[1]);
    if (kilobytes) return *kilobytes << 10;
  }
  return kUnlimited;
}

}  // namespace

bool may_take(int64_t bytes) {
  bool (*guard)(int64_t) = memory_guard.load(std::memory_order_acquire);
  return guard == nullptr || guard(bytes);
}

void guard_memory(bool (*guard)(int64_t bytes)) { memory_guard.store(guard, std::memory_order_release); }

int64_t host_memory_left(const std::string& root) {
  int64_t left = available(root);
  const std::vector<std::string> own = lines_of(root + "/proc/self/cgroup");
  for (const std::string& line : lines_of(root + "/proc/self/mountinfo")) {
    const auto hierarchy = hierarchy_of(words_of(line));
    if (!hierarchy) continue;
    for (const std::string& entry : own)
      if (auto path = path_in(*hierarchy, entry))
        left = std::min(left, left_up_from(*hierarchy, std::move(*path), root));
  }
  return left;
}

namespace {

constexpr intptr_t kPage = 4096;  // the smallest page size; larger ones are multiples of it

}  // namespace

void prefer_huge_pages(void* data, int64_t bytes) {
  const auto begin = (reinterpret_cast<intptr_t>(data) + kHugePage - 1) / kHugePage * kHugePage;
  const auto end = (reinterpret_cast<intptr_t>(data) + bytes) / kHugePage * kHugePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(end - begin), MADV_HUGEPAGE);
}

void populate_pages(void* data, int64_t bytes) {
  if (bytes <= 0) return;
  const auto first = reinterpret_cast<intptr_t>(data), last = first + bytes;
  const auto begin = first / kPage * kPage;
#ifdef MADV_POPULATE_WRITE
  // Populates all pages in one call; Linux before 5.14 does not support it.
  if (madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(last - begin), MADV_POPULATE_WRITE) == 0) return;
#endif
  for (intptr_t page = begin; page < last; page += kPage) {
    auto* byte = reinterpret_cast<volatile char*>(std::max(page, first));
    *byte = *byte;
  }
}

}  // namespace npugraph
