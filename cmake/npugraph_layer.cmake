# SPDX-License-Identifier: Apache-2.0

# That a test may take.
set(NPUGRAPH_TEST_SECONDS 300)
if(NPUGRAPH_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(NPUGRAPH_TEST_SECONDS 1800)
endif()

# The command that runs programs which were built for another processor. In the cache for scripts/lit.
list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
set(NPUGRAPH_TEST_EMULATOR "${emulator}" CACHE INTERNAL "")

# Headers of the standard library that most files include: a second of each compilation.
set(NPUGRAPH_STD_HEADERS
    <algorithm> <array> <atomic> <cstdint> <cstring> <functional> <map> <memory> <mutex> <optional> <span> <string>
    <string_view> <tuple> <unordered_map> <utility> <variant> <vector>)

# The most files in one batch of a unity build. The headers of a batch take about a second, in layers of _C ten seconds:
# they precompile none of torch's headers, which would be 443 MB. The files of the module _C itself, which compile last,
# are two batches for two cores.
set(NPUGRAPH_BATCH 12)
set(NPUGRAPH_BATCH_OF_C 24)

# npugraph_layer(<dir> [DEPS <dir>...] [ROOMS <dir>...] [HOT_ROOMS <dir>...] [LINK <library>...]
#                [PCH <header>... | PCH_OF <dir>] [MODULE <name>] [COMPOSES | HOT] [TEST_SHARDS <n>])
#
# One layer of the tree, <dir> in includes: the *.cc of the current folder become the static library npugraph_<dir> ('/'
# turns into '_'; a folder of headers alone becomes an INTERFACE library), and the *_test.cc of its folder in tests/unit
# become the test program <dir>_test. ROOMS are folders inside of it whose files belong to it. DEPS are the layers that
# this one may include, exactly those of scripts/check_layers; LINK are libraries from outside of the tree. PCH are
# headers to precompile; PCH_OF is the layer whose precompiled headers this one takes. Their layers may optimise
# differently, but that of PCH must not COMPOSE: GCC 12 crashes where -O3 takes headers of -O1. MODULE is the shared
# library whose part this layer is: the Python module _C or _ascend, or else core (npugraph_core.cmake). A layer links
# the layers of its own module, and includes those of others, which export what it calls.
# The code of a HOT layer runs in each call, or over data. A layer that COMPOSES only calls what does the work
# (npugraph_optimise_less). HOT_ROOMS are rooms with HOT code in a layer without.
# Tests that take long run in TEST_SHARDS processes, each with its share of the tests.
#
# With NPUGRAPH_UNITY, files of one layer are compiled together (npugraph_batches), so names in their unnamed namespaces
# differ. Files include what they use: builds with sanitizers neither do that nor precompile headers.
function(npugraph_layer dir)
  cmake_parse_arguments(PARSE_ARGV 1 arg "COMPOSES;HOT" "TEST_SHARDS;PCH_OF;MODULE" "DEPS;ROOMS;HOT_ROOMS;LINK;PCH")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "npugraph_layer(${dir}): unexpected arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  string(REPLACE "/" "_" name ${dir})
  if(NOT arg_MODULE)
    set(arg_MODULE core)
  endif()
  npugraph_libraries_of(libraries ${arg_MODULE} ${arg_DEPS})

  npugraph_sources(sources . ${arg_ROOMS})
  if(sources)
    add_library(npugraph_${name} STATIC ${sources})
    npugraph_compile_layer(npugraph_${name})
    if(arg_HOT_ROOMS)
      npugraph_sources(sources ${arg_HOT_ROOMS})
      add_library(npugraph_${name}_hot OBJECT ${sources})
      set(arg_COMPOSES OFF)
      set(arg_HOT ON)
      npugraph_compile_layer(npugraph_${name}_hot)
      target_link_libraries(npugraph_${name}_hot PRIVATE npugraph_options ${libraries} ${arg_LINK})
      target_sources(npugraph_${name} PRIVATE $<TARGET_OBJECTS:npugraph_${name}_hot>)
    endif()
    set(scope PUBLIC)
  else()
    add_library(npugraph_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(npugraph_${name} ${scope} npugraph_options ${libraries} ${arg_LINK})
  set_property(TARGET npugraph_${name} PROPERTY NPUGRAPH_MODULE ${arg_MODULE})
  if(arg_MODULE STREQUAL "core")
    npugraph_core_layer(npugraph_${name})
  endif()
  if(ops IN_LIST arg_DEPS)
    add_dependencies(npugraph_${name} npugraph_operators_header)
  endif()

  if(NPUGRAPH_TESTS)
    if(NOT arg_TEST_SHARDS)
      set(arg_TEST_SHARDS 1)
    endif()
    npugraph_unit_test(${dir} LIBRARIES npugraph_${name} SHARDS ${arg_TEST_SHARDS})
  endif()
endfunction()

# npugraph_sources(<variable> <room>...): the sources in these folders of the current one.
function(npugraph_sources variable)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM ARGN APPEND /*.cc)
  file(GLOB sources CONFIGURE_DEPENDS ${ARGN})
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# npugraph_compile_layer(<target>): batches, optimisation and precompiled headers, by the arguments of npugraph_layer.
macro(npugraph_compile_layer target)
  set(most ${NPUGRAPH_BATCH})
  if(arg_MODULE STREQUAL "_C")
    set(most ${NPUGRAPH_BATCH_OF_C})
  endif()
  npugraph_batches(${target} ${most})
  if(arg_COMPOSES)
    npugraph_optimise_less(${target})
  elseif(arg_HOT)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  endif()
  if(arg_PCH_OF)
    npugraph_reuse_headers(${target} ${arg_PCH_OF})
  elseif(arg_PCH)
    target_precompile_headers(${target} PRIVATE ${arg_PCH})
  endif()
endmacro()

# npugraph_batches(<target> <most>): compiles its files in batches of at most <most>, if NPUGRAPH_UNITY is on. A batch
# costs its headers once, and is compiled again when one of its files changes. Batches are of about one size, so that
# none compiles alone at the end; files are dealt to them in turn, since those with one beginning are often alike.
function(npugraph_batches target most)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources files)
  math(EXPR batches "(${files} + ${most} - 1) / ${most}")
  math(EXPR size "(${files} + ${batches} - 1) / ${batches}")
  set(dealt)
  math(EXPR last_batch "${batches} - 1")
  math(EXPR last_file "${files} - 1")
  foreach(batch RANGE ${last_batch})
    foreach(index RANGE ${batch} ${last_file} ${batches})
      list(GET sources ${index} source)
      list(APPEND dealt ${source})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${dealt}" UNITY_BUILD ${NPUGRAPH_UNITY} UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# npugraph_optimise_less(<target>): for code whose time is spent in what it calls. It compiles in three quarters of the
# time.
function(npugraph_optimise_less target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# npugraph_reuse_headers(<target> <dir>): compiles it with the precompiled headers of the layer <dir>.
function(npugraph_reuse_headers target dir)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    string(REPLACE "/" "_" owner ${dir})
    target_precompile_headers(${target} REUSE_FROM npugraph_${owner})
  endif()
endfunction()

# npugraph_libraries_of(<variable> <module> <dir>...): the libraries of these layers, as a layer of the module takes
# them.
function(npugraph_libraries_of variable module)
  set(libraries)
  foreach(dir ${ARGN})
    string(REPLACE "/" "_" name ${dir})
    get_target_property(other npugraph_${name} NPUGRAPH_MODULE)
    if(other STREQUAL module)
      list(APPEND libraries npugraph_${name})
    else()
      list(APPEND libraries $<COMPILE_ONLY:npugraph_${name}>)
      if(other STREQUAL "core")
        list(APPEND libraries npugraph_core)
      endif()
    endif()
  endforeach()
  set(${variable} ${libraries} PARENT_SCOPE)
endfunction()

# npugraph_unit_test_headers(<target>): finds the headers that unit tests share.
function(npugraph_unit_test_headers target)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit/core ${CMAKE_SOURCE_DIR}/tests/unit)
endfunction()

# npugraph_unit_test(<dir> LIBRARIES <library>... SHARDS <n>): the test program of the layer <dir> in the current
# folder, if there are tests, as one test for each shard.
function(npugraph_unit_test dir)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SHARDS" "LIBRARIES")
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CMAKE_SOURCE_DIR}/src OUTPUT_VARIABLE folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" name ${dir})
  add_executable(${name}_test ${sources} ${CMAKE_SOURCE_DIR}/tests/unit/environment.cc)
  npugraph_batches(${name}_test ${NPUGRAPH_BATCH})
  npugraph_unit_test_headers(${name}_test)
  npugraph_optimise_less(${name}_test)
  target_compile_definitions(${name}_test PRIVATE
    TEST_EMULATOR="${NPUGRAPH_TEST_EMULATOR}$<$<BOOL:${NPUGRAPH_TEST_EMULATOR}>: >")
  target_link_libraries(${name}_test PRIVATE ${arg_LIBRARIES} npugraph_options GTest::gtest_main)
  if(name STREQUAL base)
    target_precompile_headers(${name}_test PRIVATE <gtest/gtest.h> ${NPUGRAPH_STD_HEADERS})
  elseif(NOT name MATCHES "^(backend|device)_" AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_precompile_headers(${name}_test REUSE_FROM base_test)
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    math(EXPR index "${shard} - 1")
    set(test ${name})
    if(arg_SHARDS GREATER 1)
      set(test ${name}_${shard})
    endif()
    add_test(NAME ${test} COMMAND ${name}_test --gtest_brief=1)
    set_tests_properties(${test} PROPERTIES TIMEOUT ${NPUGRAPH_TEST_SECONDS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# npugraph_tool(<name> SOURCES <source>... DEPS <dir>...): a program of src/core/tools, installed beside the Python
# scripts.
function(npugraph_tool name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  add_executable(${name} ${arg_SOURCES})
  npugraph_batches(${name} ${NPUGRAPH_BATCH})
  npugraph_libraries_of(libraries ${name} ${arg_DEPS})
  target_link_libraries(${name} PRIVATE npugraph_options ${libraries} CLI11::CLI11)
  if(SKBUILD)
    # From bin/ to the package in a virtual environment, in a folder of `pip install --target`, and beside Debian's own
    # Python.
    set(python lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
    set_target_properties(${name} PROPERTIES
      INSTALL_RPATH "$ORIGIN/../${python}/site-packages/npugraph;$ORIGIN/../npugraph;$ORIGIN/../${python}/dist-packages/npugraph")
    install(TARGETS ${name} DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT wheel)
  endif()
endfunction()
