// The parts of Beast and of Asio's TLS that need not be in headers, compiled once (see event/asio.cpp).
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
