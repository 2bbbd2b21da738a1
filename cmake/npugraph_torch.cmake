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
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

# The place of the package without importing it: seconds less, and no libraries loaded.
execute_process(
  COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} ${Python_EXECUTABLE} -c
          "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE NPUGRAPH_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no torch; install requirements/torch.txt or set NPUGRAPH_TORCH=OFF")
endif()
execute_process(
  COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} ${Python_EXECUTABLE} -c "import importlib.metadata as m; print(m.version('torch'))"
  OUTPUT_VARIABLE NPUGRAPH_TORCH_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT NPUGRAPH_TORCH_VERSION MATCHES "^2\\.13\\.0")
  message(FATAL_ERROR "torch 2.13.0 is required, ${Python_EXECUTABLE} has ${NPUGRAPH_TORCH_VERSION}")
endif()

add_library(npugraph_libtorch INTERFACE)
target_include_directories(
  npugraph_libtorch SYSTEM INTERFACE ${NPUGRAPH_TORCH_DIR}/include
                                     ${NPUGRAPH_TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(npugraph_libtorch INTERFACE ${NPUGRAPH_TORCH_DIR}/lib/libtorch_cpu.so
                                                  ${NPUGRAPH_TORCH_DIR}/lib/libc10.so)

# Python-facing half: adds the interpreter's headers and the casters for tensors.
add_library(npugraph_libtorch_python INTERFACE)
target_link_libraries(npugraph_libtorch_python INTERFACE ${NPUGRAPH_TORCH_DIR}/lib/libtorch_python.so
                                                         npugraph_libtorch Python::Module)
