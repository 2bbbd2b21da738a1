// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/object_cache.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/BLAKE3.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/env.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"

namespace npugraph::codegen {

namespace {

constexpr std::string_view kMagic = "NGOBJ001";
constexpr std::string_view kSuffix = ".o";
constexpr int64_t kMostObjectBytes = int64_t{64} << 20;
constexpr time_t kDay = 24 * 60 * 60;
constexpr time_t kAbandoned = 60 * 60;   // age at which an unfinished file counts as abandoned
constexpr const char* kTurns = "turns";  // a file to lock; each byte stands for the pieces of code of some hashes
constexpr int kMostWaits = 10'000;       // of kWait: ten seconds
constexpr timespec kWait = {.tv_sec = 0, .tv_nsec = 1'000'000};

using Digest = llvm::BLAKE3Result<>;
constexpr size_t kNameBytes = 2 * sizeof(Digest) + kSuffix.size();

struct Header {
  std::array<char, kMagic.size()> magic;
  Digest digest;  // of key and object
};
static_assert(sizeof(Header) == kMagic.size() + sizeof(Digest));

// Hashes the length of each part before the part itself, so that no two lists of parts are hashed as the same text.
Digest hash(std::initializer_list<std::string_view> parts) {
  llvm::BLAKE3 hasher;
  for (const std::string_view part : parts) {
    const uint64_t size = part.size();
    hasher.update({reinterpret_cast<const uint8_t*>(&size), sizeof(size)});
    hasher.update({reinterpret_cast<const uint8_t*>(part.data()), part.size()});
  }
  return hasher.final();
}

std::string_view bytes_of(const Digest& digest) { return {reinterpret_cast<const char*>(&digest), sizeof(digest)}; }

std::string file_name(const Digest& key) { return cat(llvm::toHex(key, /*LowerCase=*/true), kSuffix); }

// Also true for a file that is being written, "<name>.XXXXXX".
bool is_file_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return name.size() >= kNameBytes && name.find_first_not_of(kDigits) == 2 * sizeof(Digest) &&
         name.substr(2 * sizeof(Digest), kSuffix.size()) == kSuffix;
}

// Returns 0, or the number of the system's error.
int make_directories(const std::string& path) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1))
    ::mkdir(path.substr(0, end).c_str(), S_IRWXU);
  return ::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST ? 0 : errno;
}

struct File {
  std::string name;
  int64_t bytes;
  timespec used;
};

std::vector<File> list_files(int directory) {
  std::vector<File> files;
  const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = own < 0 ? nullptr : ::fdopendir(own);
  if (stream == nullptr) return files;
  while (const dirent* entry = ::readdir(stream)) {
    struct stat status;
    if (!is_file_name(entry->d_name) || ::fstatat(own, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    files.push_back({entry->d_name, status.st_size, status.st_mtim});
  }
  ::closedir(stream);
  return files;
}

// Removes abandoned files and, if there are more than `most_bytes`, the oldest ones. These are reduced to three
// quarters, so that the next removal is not due soon.
void drop_oldest(int directory, int64_t most_bytes) {
  std::vector<File> files = list_files(directory);
  std::ranges::sort(files, {}, [](const File& file) { return std::pair(file.used.tv_sec, file.used.tv_nsec); });
  int64_t bytes = 0;
  for (const File& file : files) bytes += file.bytes;
  const int64_t allowed = bytes > most_bytes ? most_bytes / 4 * 3 : most_bytes;
  const time_t now = ::time(nullptr);
  for (const File& file : files) {
    const bool abandoned = file.name.size() > kNameBytes && now - file.used.tv_sec > kAbandoned;
    if (!abandoned && bytes <= allowed) continue;
    if (::unlinkat(directory, file.name.c_str(), 0) == 0) bytes -= file.bytes;
  }
}

// Whether to look at the sizes of all files. This is due after about each sixteenth of `most_bytes` that is written.
// The hash serves as a random number, as it is new for each new file.
bool is_sweep_due(const Digest& key, int64_t bytes, int64_t most_bytes) {
  uint64_t dice;
  std::memcpy(&dice, &key, sizeof(dice));
  return dice % static_cast<uint64_t>(std::max<int64_t>(most_bytes / 16, 1)) < static_cast<uint64_t>(bytes);
}

}  // namespace

std::optional<std::vector<char>> ObjectCache::find(const target::Target& target, std::string_view text) const {
  if (!is_on()) return {};
  const Descriptor directory(open_directory());
  if (directory.get() < 0) return {};
  const Digest key = hash({options_.build, print(target), text});
  const std::string name = file_name(key);
  const Descriptor file(::openat(directory.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (!is_trusted(file.get(), cat(options_.directory, "/", name))) return {};
  const int64_t bytes = status.st_size - static_cast<int64_t>(sizeof(Header));
  if (bytes < 0 || bytes > kMostObjectBytes) return {};
  Header header;
  std::vector<char> object(static_cast<size_t>(bytes));
  const std::array<iovec, 2> pieces = {iovec{&header, sizeof(header)}, iovec{object.data(), object.size()}};
  if (::readv(file.get(), pieces.data(), pieces.size()) != status.st_size) return {};
  const bool whole = std::string_view(header.magic.data(), header.magic.size()) == kMagic &&
                     header.digest == hash({bytes_of(key), {object.data(), object.size()}});
  if (!whole) return {};
  // Records the use in the time of the file, to a precision of a day.
  if (::time(nullptr) - status.st_mtime > kDay) ::futimens(file.get(), nullptr);
  return object;
}

void ObjectCache::store(const target::Target& target, std::string_view text, const std::vector<char>& object) const {
  if (!is_on() || static_cast<int64_t>(object.size()) > kMostObjectBytes) return;
  if (::access(options_.directory.c_str(), F_OK) != 0) {
    if (const int error = make_directories(options_.directory); error != 0) return warn(std::strerror(error));
  }
  const Descriptor directory(open_directory());
  if (directory.get() < 0) return;
  const Digest key = hash({options_.build, print(target), text});
  Header header;
  std::ranges::copy(kMagic, header.magic.begin());
  header.digest = hash({bytes_of(key), {object.data(), object.size()}});
  try {
    AtomicFile file(cat(options_.directory, "/", file_name(key)), "generated code");
    file.write(std::as_bytes(std::span(&header, 1)));
    file.write(std::as_bytes(std::span(object)));
    file.commit_unsynced();
  } catch (const UserError& error) {
    return warn(error.what());
  }
  const auto bytes = static_cast<int64_t>(sizeof(header) + object.size());
  if (is_sweep_due(key, bytes, options_.most_bytes)) drop_oldest(directory.get(), options_.most_bytes);
}

Descriptor ObjectCache::take_turn(const target::Target& target, std::string_view text) const {
  if (!is_on()) return Descriptor();
  if (::access(options_.directory.c_str(), F_OK) != 0) make_directories(options_.directory);
  const Descriptor directory(open_directory());
  if (directory.get() < 0) return Descriptor();
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
  Descriptor turns(::openat(directory.get(), kTurns, kFlags, S_IRUSR | S_IWUSR));
  if (turns.get() < 0) return turns;
  const Digest key = hash({options_.build, print(target), text});
  uint32_t place;
  std::memcpy(&place, &key, sizeof(place));
  // The lock belongs to the open file, not to the process, so threads wait for each other, too.
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place, .l_len = 1, .l_pid = 0};
  for (int waits = 0; ::fcntl(turns.get(), F_OFD_SETLK, &lock) != 0; ++waits) {
    if ((errno != EAGAIN && errno != EACCES) || waits == kMostWaits) return Descriptor();
    ::nanosleep(&kWait, nullptr);
  }
  return turns;
}

void ObjectCache::warn(const std::string& reason) const {
  if (!failed_.exchange(true)) log_warning("generated code is not kept in ", options_.directory, ": ", reason);
}

int ObjectCache::open_directory() const {
  const int directory = ::open(options_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 && errno != ENOENT) warn(std::strerror(errno));
  if (directory < 0 || is_trusted(directory, options_.directory)) return directory;
  ::close(directory);
  return -1;
}

bool ObjectCache::is_trusted(int descriptor, const std::string& path) const {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) return false;
  const std::string reason = why_not_trusted(status);
  if (reason.empty()) return true;
  if (!warned_.exchange(true)) log_warning("generated code is not read from ", path, ": ", reason);
  return false;
}

const ObjectCache& object_cache() {
  // Never destroyed: threads may compile while the process ends.
  static const auto* instance = new ObjectCache({.directory = cache_directory(), .build = build_id()});
  return *instance;
}

namespace {

constexpr std::string_view kOwner("GNU", 4);  // with the terminating zero

struct Search {
  uintptr_t address;  // in the object whose build id is wanted
  std::string found;
};

bool covers(const dl_phdr_info& object, uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& part = object.dlpi_phdr[i];
    const uintptr_t begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && address >= begin && address - begin < part.p_memsz) return true;
  }
  return false;
}

// The build id among the notes of one segment; empty if there is none.
std::string find_build_id(std::string_view notes, size_t alignment) {
  const auto rounded = [&](size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof(header)) {
    std::memcpy(&header, notes.data(), sizeof(header));
    const size_t data_at = rounded(sizeof(header) + header.n_namesz);
    if (data_at + header.n_descsz > notes.size()) break;
    if (header.n_type == NT_GNU_BUILD_ID && notes.substr(sizeof(header), header.n_namesz) == kOwner)
      return std::string(notes.substr(data_at, header.n_descsz));
    notes.remove_prefix(std::min(data_at + rounded(header.n_descsz), notes.size()));
  }
  return "";
}

int visit(dl_phdr_info* object, size_t, void* context) {
  auto& search = *static_cast<Search*>(context);
  if (!covers(*object, search.address)) return 0;
  for (int i = 0; i < object->dlpi_phnum && search.found.empty(); ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* begin = reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr);
    search.found = find_build_id({begin, part.p_memsz}, part.p_align == 8 ? 8 : 4);
  }
  return 1;
}

}  // namespace

std::string build_id_of(const void* address) {
  Search search{.address = reinterpret_cast<uintptr_t>(address), .found = {}};
  dl_iterate_phdr(visit, &search);
  return search.found;
}

const std::string& build_id() {
  static const std::string id = build_id_of(&kOwner);
  return id;
}

}  // namespace npugraph::codegen
