# SPDX-License-Identifier: Apache-2.0
# Target npugraph_llvm: headers (SYSTEM) and static libraries of the LLVM that generates code for this host.
# npugraph_core, which holds it, exports none of its symbols (cmake/exports.map), so another LLVM in the process is
# another LLVM.

find_package(LLVM 19.1 CONFIG REQUIRED)
if(NOT LLVM_ENABLE_RTTI)
  message(FATAL_ERROR "LLVM in ${LLVM_DIR} was built without RTTI")
endif()

# Object files may be compressed, so libLLVMSupport wants both; the archives leave nothing to find at run time.
# What it names besides (z3, and by other libraries libxml2 and terminfo) is never referenced here.
find_library(NPUGRAPH_ZLIB libz.a REQUIRED)
find_library(NPUGRAPH_ZSTD libzstd.a REQUIRED)
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES
                                             "rt;dl;m;${NPUGRAPH_ZLIB};${NPUGRAPH_ZSTD};LLVMDemangle")

llvm_map_components_to_libnames(libraries ${LLVM_NATIVE_ARCH}CodeGen Core JITLink MC Support Target TargetParser)
add_library(npugraph_llvm INTERFACE)
target_include_directories(npugraph_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(npugraph_llvm INTERFACE ${libraries})
