# SPDX-License-Identifier: Apache-2.0
# The shared library npugraph_core: all layers without torch, and LLVM, of which nothing is visible. Python modules and tools
# share it.

# npugraph_core_layer(<library>): compiles it as a part of npugraph_core. What a linker binds inside of the library needs no
# way around over the table of symbols.
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
  set(exports ${CMAKE_SOURCE_DIR}/cmake/exports.map)
  target_link_options(npugraph_core PRIVATE -Wl,--version-script=${exports} -Wl,-Bsymbolic-functions)
  set_target_properties(npugraph_core PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS ${exports}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/npugraph)
  if(NPUGRAPH_INPLACE)
    set_target_properties(npugraph_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/python/npugraph)
  endif()
  install(TARGETS npugraph_core LIBRARY DESTINATION npugraph COMPONENT wheel)
endfunction()
