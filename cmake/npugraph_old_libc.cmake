# SPDX-License-Identifier: Apache-2.0
# With NPUGRAPH_OLD_LIBC, everything is linked against the libraries of an older system, and runs there and on all newer
# ones.

set(NPUGRAPH_OLD_LIBC "" CACHE PATH "Folder with the C and C++ libraries of an older system (scripts/old_libc)")
if(NPUGRAPH_OLD_LIBC)
  add_link_options(-B${NPUGRAPH_OLD_LIBC} -L${NPUGRAPH_OLD_LIBC})
  add_library(npugraph_old_libc STATIC ${CMAKE_CURRENT_LIST_DIR}/old_libc.cc)
  target_link_libraries(npugraph_old_libc PRIVATE npugraph_options)
  link_libraries(npugraph_old_libc)
  # Last, behind the archives that need them: what the older libstdc++.so lacks comes out of the archive of the
  # compiler; before glibc 2.34, threads and dlopen have libraries of their own.
  set(CMAKE_CXX_STANDARD_LIBRARIES
      "\"${CMAKE_BINARY_DIR}/libnpugraph_old_libc.a\" -lstdc++ -l:libstdc++.a -lpthread -ldl -lrt")
endif()
