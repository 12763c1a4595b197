#include "tests/testing/loopback_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"

namespace canopy::testing {

int ConnectTo(const std::string& address, std::chrono::seconds patience) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0) << address;
  const timeval timeout{static_cast<time_t>(patience.count()), 0};
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
  return fd;
}

}  // namespace canopy::testing
