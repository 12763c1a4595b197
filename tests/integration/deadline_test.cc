// Deadlines in `grpc-timeout`, from a nanosecond to the longest that the header can contain, and
// how a server handles them. gRPC's own client in C++ never sends more than 27000H, so the client
// here writes the header itself.
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/integration/test_server.h"
#include "tests/testing/loopback_socket.h"

namespace canopy::testing {
namespace {

using Code = grpc::StatusCode;

struct Timeout {
  std::string header;
  absl::Duration duration;
};

// Returns the shortest and the longest value of every unit, and the hours around which int64
// nanoseconds overflow. Without a deadline, clients in Go send 2562047H, and clients in Java at
// most 2562047H.
std::vector<Timeout> AllTimeouts() {
  const std::vector<std::pair<char, absl::Duration>> units = {
      {'n', absl::Nanoseconds(1)}, {'u', absl::Microseconds(1)}, {'m', absl::Milliseconds(1)},
      {'S', absl::Seconds(1)},     {'M', absl::Minutes(1)},      {'H', absl::Hours(1)}};
  std::vector<Timeout> timeouts;
  for (const auto& [letter, unit] : units) {
    for (const int64_t count : {1, 99'999'999}) {
      timeouts.push_back({absl::StrCat(count, std::string(1, letter)), count * unit});
    }
  }
  for (const int64_t hours : {2'000'000, 2'562'046, 2'562'047, 2'562'048, 9'999'999}) {
    timeouts.push_back({absl::StrCat(hours, "H"), absl::Hours(hours)});
  }
  return timeouts;
}

v1::ScoreRequest SmallRequest() {
  v1::ScoreRequest request;
  request.set_request_id("r");
  AddQuestion(&request, {1, 2}, {{3}, {4}});
  return request;
}

v1::ExplainRequest SmallExplainRequest() {
  v1::ExplainRequest request;
  *request.mutable_request() = SmallRequest();
  return request;
}

// --- A client with arbitrary headers, over HTTP/2 ---

constexpr uint8_t kData = 0;
constexpr uint8_t kHeaders = 1;
constexpr uint8_t kResetStream = 3;
constexpr uint8_t kSettings = 4;
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kEndHeaders = 4;

std::string BigEndian(uint32_t value, int num_bytes) {
  std::string bytes;
  for (int i = num_bytes - 1; i >= 0; --i) {
    bytes += static_cast<char>(value >> (8 * i));
  }
  return bytes;
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  return absl::StrCat(BigEndian(static_cast<uint32_t>(payload.size()), 3), BigEndian(type, 1),
                      BigEndian(flags, 1), BigEndian(stream, 4), payload);
}

// Encodes a header field in HPACK without tables and Huffman coding. Name and value are below 127
// bytes.
std::string Field(const std::string& name, const std::string& value) {
  return absl::StrCat(std::string(1, '\0'), BigEndian(static_cast<uint32_t>(name.size()), 1), name,
                      BigEndian(static_cast<uint32_t>(value.size()), 1), value);
}

struct RawAnswer {
  int code = -1;        // grpc-status; CANCELLED for a stream that was reset
  std::string message;  // the first message, without its prefix
};

class RawClient {
 public:
  explicit RawClient(const std::string& address)
      : fd_(testing::ConnectTo(address, std::chrono::seconds(60))) {}
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // Sends a call. A client can send only one.
  RawAnswer Call(const std::string& method, const std::string& timeout,
                 const std::string& message) {
    const std::string fields =
        absl::StrCat(Field(":method", "POST"), Field(":scheme", "http"),
                     Field(":path", absl::StrCat("/canopy.v1.Scorer/", method)),
                     Field(":authority", "test"), Field("te", "trailers"),
                     Field("content-type", "application/grpc"), Field("grpc-timeout", timeout));
    const std::string body = absl::StrCat(
        std::string(1, '\0'), BigEndian(static_cast<uint32_t>(message.size()), 4), message);
    const std::string all =
        absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Frame(kSettings, 0, 0, ""),
                     Frame(kHeaders, kEndHeaders, 1, fields), Frame(kData, kEndStream, 1, body));
    EXPECT_EQ(send(fd_, all.data(), all.size(), MSG_NOSIGNAL), static_cast<ssize_t>(all.size()));
    return ReadAnswer();
  }

 private:
  std::string Read(size_t size) {
    std::string bytes(size, '\0');
    size_t read = 0;
    while (read < size) {
      const ssize_t part = recv(fd_, &bytes[read], size - read, 0);
      if (part <= 0) {
        return "";
      }
      read += static_cast<size_t>(part);
    }
    return bytes;
  }

  RawAnswer ReadAnswer() {
    RawAnswer answer;
    std::string data;
    for (std::string head = Read(9); !head.empty(); head = Read(9)) {
      const auto byte = [&head](size_t i) { return static_cast<uint8_t>(head[i]); };
      const size_t size = (size_t{byte(0)} << 16) + (size_t{byte(1)} << 8) + byte(2);
      const std::string payload = Read(size);
      if (byte(3) == kData) {
        data += payload;
      } else if (byte(3) == kHeaders) {
        // gRPC writes a name that is new to the connection as plain text, followed by its value.
        constexpr absl::string_view kName = "grpc-status";
        if (const size_t at = payload.find(kName.data()); at != std::string::npos) {
          const size_t value = at + kName.size();
          EXPECT_TRUE(absl::SimpleAtoi(
              payload.substr(value + 1, static_cast<uint8_t>(payload[value])), &answer.code));
        }
      } else if (byte(3) == kResetStream) {
        answer.code = answer.code < 0 ? Code::CANCELLED : answer.code;
      }
      const bool is_last = byte(3) == kResetStream ||
                           ((byte(3) == kData || byte(3) == kHeaders) && (byte(4) & kEndStream));
      if (is_last) {
        break;
      }
    }
    answer.message = data.substr(std::min<size_t>(data.size(), 5));
    return answer;
  }

  const int fd_;
};

// Returns the code of a single request, or of a request on a stream of its own.
int CodeOf(const std::string& address, const std::string& method, const std::string& timeout) {
  const std::string request = method == "Explain" ? SmallExplainRequest().SerializeAsString()
                                                  : SmallRequest().SerializeAsString();
  const RawAnswer answer = RawClient(address).Call(method, timeout, request);
  if (method == "ScoreStream" && answer.code == Code::OK) {
    v1::ScoreResponse response;
    EXPECT_TRUE(response.ParseFromString(answer.message));
    EXPECT_EQ(response.request_id(), "r");
    return response.error().code();
  }
  return answer.code;
}

// gRPC counts the time to a deadline in milliseconds on a clock of its own.
constexpr absl::Duration kClockStep = absl::Milliseconds(2);

constexpr const char* kMethods[] = {"Score", "Explain", "ScoreStream"};

// Holds on a machine of any speed: a call that ends for its deadline has used its time.
TEST(DeadlineTest, NoCallEndsBeforeItsTimeout) {
  TestServer server;
  for (const Timeout& timeout : AllTimeouts()) {
    for (const char* method : kMethods) {
      SCOPED_TRACE(absl::StrCat(method, " with grpc-timeout ", timeout.header));
      const absl::Time begin = absl::Now();
      const int code = CodeOf(server.server().address(), method, timeout.header);
      const absl::Duration passed = absl::Now() - begin;
      if (code != Code::OK) {
        EXPECT_TRUE(code == Code::DEADLINE_EXCEEDED || code == Code::CANCELLED) << code;
        EXPECT_GE(passed + kClockStep, timeout.duration);
      }
    }
  }
}

// The device is busy, so that no request is answered in time. Explain does not wait for the device.
TEST(DeadlineTest, ShortTimeoutsEndCallsThatWait) {
  TestServer server;
  server.controls().gate.Close();
  for (const Timeout& timeout : AllTimeouts()) {
    for (const char* method : {"Score", "ScoreStream"}) {
      if (timeout.duration <= absl::Milliseconds(200)) {
        SCOPED_TRACE(absl::StrCat(method, " with grpc-timeout ", timeout.header));
        const int code = CodeOf(server.server().address(), method, timeout.header);
        EXPECT_TRUE(code == Code::DEADLINE_EXCEEDED || code == Code::CANCELLED) << code;
      }
    }
  }
  server.controls().gate.Open();
}

TEST(DeadlineTest, AMalformedTimeoutDoesNotHurtTheServer) {
  TestServer server;
  for (const char* header : {"", "H", "1", "1x", "-1S", "999999999H", "1 S", "1H1"}) {
    for (const char* method : kMethods) {
      (void)CodeOf(server.server().address(), method, header);
    }
  }
  EXPECT_EQ(CodeOf(server.server().address(), "Score", "1H"), Code::OK);
}

TEST(DeadlineTest, AServerThatMayDrainForEverStillEnds) {
  TestServer server;
  EXPECT_EQ(CodeOf(server.server().address(), "Score", "1H"), Code::OK);
  EXPECT_TRUE(server.server().Drain(absl::InfiniteDuration()));
}

}  // namespace
}  // namespace canopy::testing
