// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/running_tasks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

namespace npugraph::runtime {
namespace {

constexpr size_t kLine = 512;   // bytes, with the end of the line
constexpr size_t kLines = 128;  // threads; more are not recorded

class File {
 public:
  explicit File(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) fail(path);
    void* memory = MAP_FAILED;
    if (ftruncate(fd, kLines * kLine) == 0) {
      memory = mmap(nullptr, kLines * kLine, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    const int error = errno;
    close(fd);
    errno = error;
    if (memory == MAP_FAILED) fail(path);
    text_ = static_cast<char*>(memory);
    for (size_t line = 0; line < kLines; ++line) write(line, "");
  }
  ~File() { munmap(text_, kLines * kLine); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(size_t line, const std::string& text) {
    char* to = text_ + line * kLine;
    const size_t size = std::min(text.size(), kLine - 1);
    std::memcpy(to, text.data(), size);
    std::memset(to + size, ' ', kLine - 1 - size);
    to[kLine - 1] = '\n';
  }
  bool is_ours() const { return process_ == getpid(); }

 private:
  [[noreturn]] static void fail(const std::string& path) {
    throw UserError(cat("cannot write running tasks to ", path, ": ", std::strerror(errno)));
  }

  const pid_t process_ = getpid();
  char* text_ = nullptr;
};

std::atomic<bool> is_recorded{false};
std::mutex file_mutex;  // guards what follows
std::shared_ptr<File> file;
std::array<bool, kLines> taken;

// A thread's line in the file, reserved while the thread lives, and the texts of what it is doing.
struct Thread {
  Thread() {
    const std::lock_guard lock(file_mutex);
    line = static_cast<size_t>(std::ranges::find(taken, false) - taken.begin());
    if (line < kLines) taken[line] = true;
  }
  ~Thread() {
    const std::lock_guard lock(file_mutex);
    if (line < kLines) taken[line] = false;
  }
  void show() const {
    const std::lock_guard lock(file_mutex);
    if (file != nullptr && line < kLines && file->is_ours()) file->write(line, running.empty() ? "" : running.back());
  }

  size_t line = kLines;
  std::vector<std::string> running;
};

Thread& this_thread() {
  static thread_local Thread thread;
  return thread;
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

}  // namespace

void record_running_tasks(const std::string& path) {
  auto next = path.empty() ? nullptr : std::make_shared<File>(path);
  const std::lock_guard lock(file_mutex);
  is_recorded.store(next != nullptr, std::memory_order_relaxed);
  file.swap(next);
}

bool running_tasks_recorded() { return is_recorded.load(std::memory_order_relaxed); }

void begin_running(std::string text) {
  Thread& thread = this_thread();
  thread.running.push_back(cat("since ", time_of_day(), " thread ", gettid(), ": ", text));
  thread.show();
}

void end_running() {
  Thread& thread = this_thread();
  if (!thread.running.empty()) thread.running.pop_back();
  thread.show();
}

}  // namespace npugraph::runtime
