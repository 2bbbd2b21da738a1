// SPDX-License-Identifier: Apache-2.0
#include "base/trust.h"

#include <unistd.h>

#include "base/error.h"

namespace npugraph {

std::string why_not_trusted(const struct stat& status) {
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return cat("it is owned by user ", status.st_uid, ", not by this user, ", ::geteuid(), ", or by root");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write it: run chmod go-w on it";
  return {};
}

}  // namespace npugraph
