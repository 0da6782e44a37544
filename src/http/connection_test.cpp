#include "http/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/test_server.h"

namespace http {
namespace {

using base::ErrorCode;
using base::Result;
using event::Async;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

struct Whole {
  Head head;
  std::string body;
  bool reusable = false;
};

Async<Result<Whole>> fetch(const Url& url, std::chrono::nanoseconds patience, size_t max_body) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const Target target{url};
  auto stream = co_await dial(target);
  if (!stream) co_return std::unexpected(stream.error());
  Connection connection(executor, std::move(*stream));
  auto head = co_await connection.exchange(kRequest, patience);
  if (!head) co_return std::unexpected(head.error());
  Whole whole{*head, {}};
  while (whole.body.size() < max_body) {
    const auto bytes = co_await connection.read(patience);
    if (!bytes) co_return std::unexpected(bytes.error());
    if (bytes->empty()) break;
    EXPECT_LE(bytes->size(), Connection::kBufferBytes);
    whole.body += *bytes;
  }
  whole.reusable = connection.reusable();
  co_return whole;
}

class ConnectionTest : public ::testing::Test {
 protected:
  Result<Whole> get(std::string answer, std::chrono::nanoseconds patience = 10s,
                    size_t max_body = 64 << 20) {
    server.answers = {std::move(answer)};
    const Url url = *parse_url(server.url());
    return await(io, fetch(url, patience, max_body));
  }
  base::Error error_of(std::string answer) {
    const auto result = get(std::move(answer));
    return result ? base::Error{ErrorCode::System, "no error"} : result.error();
  }

  boost::asio::io_context io;
  CannedServer server{io};
};

TEST_F(ConnectionTest, ABodyWithALengthIsReadWhole) {
  const auto got = get("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->head.status, 200);
  EXPECT_EQ(got->head.content_type, "a/b");
  EXPECT_EQ(got->body, "hello");
  EXPECT_TRUE(got->reusable);
}

TEST_F(ConnectionTest, ABodyInChunksIsReadWhole) {
  const auto got = get(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->body, "hello!");
  EXPECT_TRUE(got->reusable);
}

TEST_F(ConnectionTest, ABodyWithoutALengthEndsWithTheConnection) {
  const auto got = get("HTTP/1.1 200 OK\r\n\r\nhello");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->body, "hello");
  EXPECT_FALSE(got->reusable);
}

TEST_F(ConnectionTest, WhatComesBeforeTheAnswerIsLeftOut) {
  const auto got =
      get("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
          "HTTP/1.1 204 No Content\r\n\r\n");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->head.status, 204);
}

TEST_F(ConnectionTest, AnAnswerThatIsOnlyEverAnnouncedIsAnError) {
  std::string endless;
  for (int i = 0; i < 1000; ++i)
    endless += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(error_of(endless).code, ErrorCode::Invalid);
}

TEST_F(ConnectionTest, GarbageIsAnError) {
  EXPECT_THAT(error_of("SSH-2.0-OpenSSH_9.2\r\n\r\n").text, HasSubstr("malformed HTTP response"));
  EXPECT_EQ(error_of(std::string(300, '\0')).code, ErrorCode::Invalid);
}

TEST_F(ConnectionTest, HeadersWithoutEndAreAnError) {
  EXPECT_EQ(error_of("HTTP/1.1 200 OK\r\nX: " + std::string(1 << 20, 'x')).code,
            ErrorCode::Invalid);
  std::string many = "HTTP/1.1 200 OK\r\n";
  while (many.size() < (1 << 20))
    many += "X-Header: value\r\n";
  EXPECT_EQ(error_of(many).code, ErrorCode::Invalid);
}

TEST_F(ConnectionTest, ATruncatedAnswerIsLost) {
  EXPECT_EQ(error_of("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello").code, ErrorCode::Lost);
  EXPECT_EQ(error_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel").code,
            ErrorCode::Lost);
  EXPECT_EQ(error_of("HTTP/1.1 20").code, ErrorCode::Lost);
  EXPECT_EQ(error_of("").text, "EOF");
}

TEST_F(ConnectionTest, AHugeChunkIsHandedOutInSmallPieces) {
  const auto got = get("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n" +
                           std::string(5 << 20, 'x'),
                       10s, 4 << 20);
  ASSERT_TRUE(got) << got.error().text;
}

TEST_F(ConnectionTest, AChunkWithANonsensicalLengthIsAnError) {
  EXPECT_EQ(error_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "fffffffffffffffffffff\r\nx")
                .code,
            ErrorCode::Invalid);
  EXPECT_EQ(error_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;" +
                     std::string(1 << 20, 'e'))
                .code,
            ErrorCode::Invalid);
}

TEST_F(ConnectionTest, SilenceIsATimeout) {
  server.hang_up = false;
  const auto got = get("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", 50ms);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::Timeout);
}

TEST_F(ConnectionTest, NobodyListeningIsRefused) {
  boost::asio::ip::tcp::acceptor closed(io, {boost::asio::ip::address_v4::loopback(), 0});
  const Url url = *parse_url("http://127.0.0.1:" + std::to_string(closed.local_endpoint().port()));
  closed.close();
  const auto got = await(io, fetch(url, 10s, 1));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::Refused);
  EXPECT_THAT(got.error().text, HasSubstr("dial tcp " + url.authority() + ": connect: "));
}

}  // namespace
}  // namespace http
