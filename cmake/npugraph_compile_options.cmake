# SPDX-License-Identifier: Apache-2.0
# What holds for every target: language, visibility, warnings, sanitizers, compiler cache, linker.
# There is no global -march: the binaries run on any x86-64 and AArch64. Kernels pick their instruction
# set at run time (function multiversioning inside the file).

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Static libraries name their objects instead of holding copies.
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> qcT <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "<CMAKE_AR> qT <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Release keeps line tables, compressed, so that profiles and traces of crashes name lines. Layers that say so are
# compiled with -O3 (npugraph_layer HOT); the rest gains nothing from it, and would take a tenth longer to compile.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -gz -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-g -D_GLIBCXX_ASSERTIONS")

find_program(NPUGRAPH_CCACHE ccache)
if(NPUGRAPH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Sloppiness: what ccache asks for before it caches compilations that use a precompiled header. The other
  # two let build folders and clones share: paths into the tree count as relative ones, its own path not at all.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${NPUGRAPH_CCACHE})
endif()

find_program(NPUGRAPH_MOLD mold)
if(NPUGRAPH_MOLD AND NOT CMAKE_CROSSCOMPILING)  # cross compilers do not find it
  add_link_options(-fuse-ld=mold)
endif()
add_link_options(-Wl,--as-needed)
# Names what was linked; generated code on disk is of one build (codegen/jit/object_cache.h).
add_link_options(-Wl,--build-id=sha1)

# Own code only: what npugraph_layer() makes links this, headers of others come as SYSTEM.
add_library(npugraph_options INTERFACE)
# The core is named without its folder: "base/error.h", "backend/bridge/catalog.h".
target_include_directories(npugraph_options INTERFACE ${CMAKE_SOURCE_DIR}/src/core ${CMAKE_SOURCE_DIR}/src)
# Never -ffast-math or its parts: sums keep their order, NaN and infinity count (docs/numerics.md). errno is
# the one thing that mathematical functions need not set; without it they vectorise.
target_compile_options(npugraph_options INTERFACE -Wall -Wextra -fno-math-errno
                                                  $<$<BOOL:${NPUGRAPH_WERROR}>:-Werror>)
# GCC collects the garbage of its heap (in KiB here) whenever that has doubled: a tenth of the time of files with
# torch's headers, which then need 2.2 GB instead of 1.7.
target_compile_options(npugraph_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>)
# Designated initialisers leave out what keeps its default. GCC 12 is wrong about std::string
# (https://gcc.gnu.org/PR105651) in these warnings: always in the first, in the others if its headers are precompiled.
target_compile_options(npugraph_options INTERFACE -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Below -O3, GCC 12 takes members of a std::optional or std::variant that are not there for uninitialised ones.
target_compile_options(npugraph_options INTERFACE $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-maybe-uninitialized>)
if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  target_compile_options(npugraph_options INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow -Wno-array-bounds>)
endif()
target_compile_definitions(npugraph_options INTERFACE NPUGRAPH_VERSION="${NPUGRAPH_VERSION}")

if(NPUGRAPH_SANITIZE)
  if(NPUGRAPH_TORCH AND NOT NPUGRAPH_SANITIZE STREQUAL "address")
    message(FATAL_ERROR "NPUGRAPH_SANITIZE=${NPUGRAPH_SANITIZE} needs NPUGRAPH_TORCH=OFF: torch is not built with sanitizers")
  endif()
  add_compile_options(-fsanitize=${NPUGRAPH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  # With -fsanitize=thread GCC 12 takes members of a std::variant that are not there for uninitialised ones.
  target_compile_options(npugraph_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=${NPUGRAPH_SANITIZE})
endif()
