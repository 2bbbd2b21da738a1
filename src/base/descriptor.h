// SPDX-License-Identifier: Apache-2.0
// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

namespace npugraph {

class Descriptor {
 public:
  // What open() gave: negative where there is none.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

}  // namespace npugraph
