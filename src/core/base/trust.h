// SPDX-License-Identifier: Apache-2.0
// Which files a process takes code from.
#pragma once

#include <string>

#include <sys/stat.h>

namespace npugraph {

// Empty for a file or directory of this user or of root, which may replace any program anyway, that others cannot
// write. Else the reason: "it is owned by user 12, not by this user, 34, or by root", "others may write it: run chmod
// go-w on it".
std::string why_not_trusted(const struct stat& status);

}  // namespace npugraph
