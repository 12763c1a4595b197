#include "client/connection_hint.h"

#include <string>

#include "gtest/gtest.h"

namespace canopy::client {
namespace {

// Returns the hint for an error text of gRPC.
std::string HintFor(const std::string& text) {
  return ConnectionHint(absl::UnavailableError(text), "h:1");
}

bool Mentions(const std::string& hint, const std::string& part) {
  return hint.find(part) != std::string::npos;
}

TEST(ConnectionHintTest, DistinguishesAnHttpPortFromTlsOnOneSide) {
  const std::string failing = "connections to all backends failing; last error: ";
  EXPECT_TRUE(Mentions(HintFor(failing + "UNAVAILABLE: ipv4:127.0.0.1:1: Failed parsing HTTP/2"),
                       "what listens at h:1 speaks HTTP/1"));
  EXPECT_TRUE(Mentions(
      HintFor(failing + "UNAVAILABLE: ipv4:127.0.0.1:1: Trying to connect an http1.x server"),
      "give the address of its --listen"));
  EXPECT_TRUE(
      Mentions(HintFor(failing + "UNKNOWN: ipv4:127.0.0.1:1: Ssl handshake failed: SSL_ERROR_SSL: "
                                 "error:0A00010B:SSL routines::wrong version number"),
               "what listens at h:1 speaks plaintext: leave out TLS"));
  EXPECT_TRUE(Mentions(HintFor(failing + "UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed"),
                       "closed the connection, as a port that wants TLS does"));
}

TEST(ConnectionHintTest, OtherErrorsHaveNoHint) {
  EXPECT_EQ(HintFor("failed to connect to all addresses: Connection refused"), "");
  EXPECT_EQ(HintFor("draining"), "");
  EXPECT_EQ(ConnectionHint(absl::InvalidArgumentError("Socket closed"), "h:1"), "");
  EXPECT_EQ(ConnectionHint(absl::UnimplementedError("outputs.values"), "h:1"), "");
  EXPECT_TRUE(Mentions(ConnectionHint(absl::UnimplementedError(""), "h:1"),
                       "what listens at h:1 does not have this call"));
}

}  // namespace
}  // namespace canopy::client
