# Precompiled headers: three quarters of what the compiler reads are headers of the standard library and of Boost, the same ones
# in every file. There is one set for each kind of target; all targets of a kind share it, so they must not differ in compile
# options. A file still includes what it uses: `make plain` compiles each one without these.
#
# kp_precompiled(TARGET KIND): KIND is std, asio, test or asio_test.
option(KP_PRECOMPILED "Use precompiled headers" ON)

# With precompiled headers g++ 12 forgets that std::string and its like are not ours to mend, and tells what its optimizer fears
# about them. `make plain` builds without, and with these warnings.
if(KP_PRECOMPILED AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-fpch-preprocess)  # for ccache
  add_compile_options(-Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(KP_PRECOMPILED AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")  # for ccache: equal headers give equal files
endif()

set(kp_headers_std
    <algorithm> <array> <atomic> <cerrno> <charconv> <chrono> <compare> <cstddef> <cstdint> <cstdio> <cstdlib> <cstring> <deque>
    <expected> <functional> <limits> <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <tuple>
    <type_traits> <unordered_map> <utility> <variant> <vector>
    <boost/unordered/unordered_flat_map.hpp>)
set(kp_headers_asio
    ${kp_headers_std}
    <boost/asio/any_io_executor.hpp> <boost/asio/awaitable.hpp> <boost/asio/co_spawn.hpp> <boost/asio/detached.hpp>
    <boost/asio/io_context.hpp> <boost/asio/ip/tcp.hpp> <boost/asio/post.hpp> <boost/asio/redirect_error.hpp>
    <boost/asio/steady_timer.hpp> <boost/asio/this_coro.hpp> <boost/asio/use_awaitable.hpp> <boost/asio/write.hpp>)
set(kp_headers_test <gmock/gmock.h> <gtest/gtest.h> ${kp_headers_std} <filesystem> <fstream> <sstream>)
set(kp_headers_asio_test <gmock/gmock.h> <gtest/gtest.h> ${kp_headers_asio} <filesystem> <fstream> <sstream>)

# Each set is compiled once, for a library that has nothing else in it.
file(WRITE ${CMAKE_BINARY_DIR}/nothing.cpp.new "")
file(COPY_FILE ${CMAKE_BINARY_DIR}/nothing.cpp.new ${CMAKE_BINARY_DIR}/nothing.cpp ONLY_IF_DIFFERENT)

function(kp_precompiled target kind)
  if(NOT KP_PRECOMPILED)
    return()
  endif()
  set(owner kp_precompiled_${kind})
  if(NOT TARGET ${owner})
    add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/nothing.cpp)
    target_precompile_headers(${owner} PRIVATE ${kp_headers_${kind}})
    if(kind MATCHES "test$")
      target_compile_options(${owner} PRIVATE ${KP_TEST_OPTIONS})
      target_link_libraries(${owner} PRIVATE GTest::gmock)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()
