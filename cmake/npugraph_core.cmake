# SPDX-License-Identifier: Apache-2.0
# The shared library npugraph_core: all layers without torch, and LLVM, of which nothing is visible. Python modules and
# tools share it.

# npugraph_core_layer(<library>): compiles it as a part of npugraph_core. What a linker binds inside of the library
# needs no way around over the table of symbols.
function(npugraph_core_layer library)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    set_target_properties(${library} PROPERTIES CXX_VISIBILITY_PRESET default)
    target_compile_options(${library} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
  endif()
endfunction()

# npugraph_core_library(<dir>...): makes npugraph_core of these layers.
function(npugraph_core_library)
  list(TRANSFORM ARGN REPLACE "/" "_" OUTPUT_VARIABLE layers)
  list(TRANSFORM layers PREPEND npugraph_)
  add_library(npugraph_core SHARED)
  foreach(layer ${layers})
    get_target_property(type ${layer} TYPE)
    if(type STREQUAL STATIC_LIBRARY)
      target_sources(npugraph_core PRIVATE $<TARGET_OBJECTS:${layer}>)
    endif()
  endforeach()
  # For the libraries behind them; their own archives hold nothing that is not here yet.
  target_link_libraries(npugraph_core PRIVATE npugraph_options ${layers})
  set_target_properties(npugraph_core PROPERTIES LINKER_LANGUAGE CXX)
  npugraph_in_package(npugraph_core "")
endfunction()

# npugraph_in_package(<target> <folder>): puts the library into this folder of the package npugraph. It shows the
# symbols of exports.map. Calls of them inside of the library stay direct calls.
function(npugraph_in_package target folder)
  set(exports ${CMAKE_SOURCE_DIR}/cmake/exports.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${exports} -Wl,-Bsymbolic-functions)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${exports})
  set(package ${CMAKE_BINARY_DIR}/python/npugraph)
  if(NPUGRAPH_INPLACE)
    set(package ${CMAKE_SOURCE_DIR}/python/npugraph)
  endif()
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${package}/${folder})
  install(TARGETS ${target} LIBRARY DESTINATION npugraph/${folder} COMPONENT wheel)
endfunction()
