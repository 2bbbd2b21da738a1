# SPDX-License-Identifier: Apache-2.0
# Target npugraph_libtorch: headers (SYSTEM) and libraries of the torch that Python imports, and pybind11 as
# shipped with it. The paths are taken directly: torch's own CMake package wants a CUDA toolkit when torch
# was built with CUDA, and nothing here does.

# A virtual environment in the tree is what `make` uses; -DPython_EXECUTABLE=... overrides.
if(NOT Python_EXECUTABLE AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
# The emulator, if there is one, runs the interpreter.
if(POLICY CMP0190)
  cmake_policy(SET CMP0190 NEW)
endif()
# Development.Embed is for test programs, which bring libpython themselves (Python::Python).
find_package(Python 3.10...<3.15 REQUIRED COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.Embed)

# The place of the package without importing it: seconds less, and no libraries loaded.
execute_process(
  COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} ${Python_EXECUTABLE} -c
          "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE NPUGRAPH_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no torch; install requirements/torch.txt or set NPUGRAPH_TORCH=OFF")
endif()
# Another torch at this place is configured for, not only compiled with.
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${NPUGRAPH_TORCH_DIR}/version.py)
execute_process(
  COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} ${Python_EXECUTABLE} -c "import importlib.metadata as m; print(m.version('torch'))"
  OUTPUT_VARIABLE NPUGRAPH_TORCH_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
# pyproject.toml is the one home of the range: "torch>=2.13,<2.15".
file(STRINGS ${CMAKE_SOURCE_DIR}/pyproject.toml torch_line REGEX "\"torch>=")
string(REGEX MATCH "torch>=([0-9.]+),<([0-9.]+)" torch_range "${torch_line}")
if(NPUGRAPH_TORCH_VERSION VERSION_LESS CMAKE_MATCH_1 OR NPUGRAPH_TORCH_VERSION VERSION_GREATER_EQUAL CMAKE_MATCH_2)
  message(FATAL_ERROR "${torch_range} is required, ${Python_EXECUTABLE} has ${NPUGRAPH_TORCH_VERSION}")
endif()
# The folder of its modules in the package: python/npugraph/torch_versions.py chooses one.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" NPUGRAPH_TORCH_FOLDER ${NPUGRAPH_TORCH_VERSION})
string(PREPEND NPUGRAPH_TORCH_FOLDER torch-)
set(NPUGRAPH_COMMIT "" CACHE STRING "The commit of these sources, which the wheel then names")
if(NPUGRAPH_COMMIT)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/_commit CONTENT "${NPUGRAPH_COMMIT}\n")
  install(FILES ${CMAKE_BINARY_DIR}/_commit DESTINATION npugraph COMPONENT wheel)
endif()

add_library(npugraph_libtorch INTERFACE)
# Headers of torch then include the operators that they call, instead of all: a fifth of their time.
target_compile_definitions(npugraph_libtorch INTERFACE AT_PER_OPERATOR_HEADERS)
target_include_directories(
  npugraph_libtorch SYSTEM INTERFACE ${NPUGRAPH_TORCH_DIR}/include
                                     ${NPUGRAPH_TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(npugraph_libtorch INTERFACE ${NPUGRAPH_TORCH_DIR}/lib/libtorch_cpu.so
                                                  ${NPUGRAPH_TORCH_DIR}/lib/libc10.so)

# Python-facing half: adds the interpreter's headers and the casters for tensors.
add_library(npugraph_libtorch_python INTERFACE)
target_link_libraries(npugraph_libtorch_python INTERFACE ${NPUGRAPH_TORCH_DIR}/lib/libtorch_python.so
                                                         npugraph_libtorch Python::Module)

# npugraph_python_module(<name> DEPS <dir>... [PCH_OF <dir>])
#
# The extension module npugraph.<name>, target npugraph<name>, of the *.cc of the current folder and the layers DEPS. It
# exports its initialiser and the symbols marked NPUGRAPH_EXPORT (backend/own_kernels/export.h). Modules other than _C
# take what they lack from _C, which lies beside them.
function(npugraph_python_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PCH_OF" "DEPS")
  npugraph_sources(sources .)
  set(target npugraph${name})
  Python_add_library(${target} MODULE WITH_SOABI ${sources})
  npugraph_batches(${target} ${NPUGRAPH_BATCH})
  npugraph_optimise_less(${target})
  npugraph_libraries_of(libraries ${name} ${arg_DEPS})
  target_link_libraries(${target} PRIVATE npugraph_options ${libraries} npugraph_libtorch_python)
  if(arg_PCH_OF)
    npugraph_reuse_headers(${target} ${arg_PCH_OF})
  endif()
  if(name STREQUAL _C)
    target_link_options(${target} PRIVATE -Wl,-soname,$<TARGET_FILE_NAME:${target}>)
  else()
    add_dependencies(${target} npugraph_C)
    # A flag: CMake would look for a library lib_C.
    target_link_libraries(${target} PRIVATE "-Wl,\"$<TARGET_FILE:npugraph_C>\"")
  endif()
  # site-packages/npugraph/torch-2.13/_C.so, npugraph_core above it, site-packages/torch/lib
  set_target_properties(
    ${target}
    PROPERTIES OUTPUT_NAME ${name}
               BUILD_RPATH "$ORIGIN;$ORIGIN/..;${NPUGRAPH_TORCH_DIR}/lib"
               INSTALL_RPATH "$ORIGIN;$ORIGIN/..;$ORIGIN/../../torch/lib")
  npugraph_in_package(${target} ${NPUGRAPH_TORCH_FOLDER})
endfunction()
