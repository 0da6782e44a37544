// The part of Asio that need not be in headers, compiled once (BOOST_ASIO_SEPARATE_COMPILATION, set in CMakeLists.txt)
// instead of in each file that waits.
#include <boost/asio/impl/src.hpp>
