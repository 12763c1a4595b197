#include "tests/integration/metrics_page.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace canopy::testing {

double MetricValue(const std::string& page, const std::string& series) {
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    double value = 0;
    if (absl::StartsWith(line, absl::StrCat(series, " ")) &&
        absl::SimpleAtod(line.substr(series.size() + 1), &value)) {
      return value;
    }
  }
  return -1;
}

std::string Http(const std::string& address, const std::string& request) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(port));
  peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)), 0);
  EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t size = 0; (size = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(size));
  }
  close(fd);
  return answer;
}

std::string Scrape(const std::string& address) {
  return Http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

void AwaitMetric(const std::string& address, const std::string& series, double value) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (MetricValue(Scrape(address), series) != value) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << series;
    std::this_thread::yield();
  }
}

}  // namespace canopy::testing
