# SPDX-License-Identifier: Apache-2.0
# The CMake package of npugraph, for libraries of kernels:
#
#   find_package(npugraph REQUIRED)                  # with -Dnpugraph_DIR=$(python -m npugraph paths --cmake)
#   npugraph_add_kernels(my_ops my_ops.cc)           # libmy_ops.so, for npugraph.load_library
#
# The target npugraph::kernel has the headers alone, for libraries that are made in other ways.
if(NOT TARGET npugraph::kernel)
  add_library(npugraph::kernel INTERFACE IMPORTED)
  target_include_directories(npugraph::kernel SYSTEM INTERFACE ${CMAKE_CURRENT_LIST_DIR}/../include)
  target_compile_features(npugraph::kernel INTERFACE cxx_std_17)
endif()

# npugraph_add_kernels(<name> <source>...): a library of kernels, optimised unless CMAKE_BUILD_TYPE says something else.
function(npugraph_add_kernels name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE npugraph::kernel)
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(NOT CMAKE_BUILD_TYPE)
    target_compile_options(${name} PRIVATE -O3)
  endif()
endfunction()
