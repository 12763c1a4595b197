// Tests how the acceptor ends connections whose descriptors it has passed to gRPC.
#include "server/net/connection_acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/mutex.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

using Clock = std::chrono::steady_clock;

// Owns the connections, like gRPC.
class Sink {
 public:
  void Add(int fd) {
    MutexLock lock(&mutex_);
    fds_.push_back(fd);
  }
  std::vector<int> Await(size_t count) {
    MutexLock lock(&mutex_);
    const auto reached = [&]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return fds_.size() == count; };
    mutex_.Await(Condition(&reached));
    return fds_;
  }

 private:
  Mutex mutex_;
  std::vector<int> fds_ ABSL_GUARDED_BY(mutex_);
};

class ToSink final : public grpc::experimental::ExternalConnectionAcceptor {
 public:
  explicit ToSink(Sink* sink) : sink_(*sink) {}
  void HandleNewConnection(NewConnectionParameters* connection) override {
    sink_.Add(connection->fd);
  }

 private:
  Sink& sink_;
};

class ConnectionAcceptorTest : public ::testing::Test {
 protected:
  ConnectionAcceptorTest()
      : acceptor_(*ListenSocket::Open("127.0.0.1:0"), std::make_unique<ToSink>(&sink_), nullptr) {}

  static int Connect(const std::string& address) {
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return fd;
  }

  // Returns whether the other end has sent the end of its stream.
  static bool HasEnded(int fd) {
    char byte = 0;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
  }

  Sink sink_;
  ConnectionAcceptor acceptor_;
};

TEST_F(ConnectionAcceptorTest, EndsOpenConnectionsAndWaitsForThem) {
  const int client = Connect(acceptor_.address());
  const int server = sink_.Await(1)[0];
  acceptor_.Stop();
  const auto begin = Clock::now();
  acceptor_.EndConnections(begin + std::chrono::milliseconds(30));
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(30)) << "it is still open";
  EXPECT_TRUE(HasEnded(client));
  std::thread closes([server] { close(server); });
  acceptor_.EndConnections(begin + std::chrono::hours(1));
  closes.join();
  close(client);
}

TEST_F(ConnectionAcceptorTest, EndsOpenConnectionsWithoutAFreeDescriptor) {
  const int client = Connect(acceptor_.address());
  const int server = sink_.Await(1)[0];
  acceptor_.Stop();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  acceptor_.EndConnections(Clock::now());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(HasEnded(client));
  close(server);
  close(client);
}

TEST_F(ConnectionAcceptorTest, AReusedDescriptorIsNotShutDown) {
  const int client = Connect(acceptor_.address());
  const int server = sink_.Await(1)[0];
  int others[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
  // gRPC closes the connection, and another socket gets its number.
  ASSERT_EQ(dup2(others[0], server), server);
  acceptor_.Stop();
  const auto begin = Clock::now();
  acceptor_.EndConnections(begin + std::chrono::hours(1));
  EXPECT_FALSE(HasEnded(others[1]));
  for (const int fd : {client, server, others[0], others[1]}) {
    close(fd);
  }
}

// A number may be reused at any time, also between a check and the action after it.
TEST_F(ConnectionAcceptorTest, DescriptorsThatAreReusedMeanwhileAreNotShutDown) {
  constexpr size_t kConnections = 300;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    Sink sink;
    ConnectionAcceptor acceptor(*ListenSocket::Open("127.0.0.1:0"), std::make_unique<ToSink>(&sink),
                                nullptr);
    std::vector<int> clients;
    for (size_t i = 0; i < kConnections; ++i) {
      clients.push_back(Connect(acceptor.address()));
    }
    const std::vector<int> servers = sink.Await(kConnections);
    int others[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
    acceptor.Stop();
    std::atomic<bool> started{false};
    std::thread descriptor_user([&] {
      started = true;
      for (const int fd : servers) {
        EXPECT_EQ(dup2(others[0], fd), fd);
      }
    });
    while (!started) {
      std::this_thread::yield();
    }
    acceptor.EndConnections(Clock::now() + std::chrono::hours(1));
    descriptor_user.join();
    EXPECT_FALSE(HasEnded(others[1])) << "a socket that was never the acceptor's";
    for (const int fd : others) {
      close(fd);
    }
    for (size_t i = 0; i < kConnections; ++i) {
      close(clients[i]);
      close(servers[i]);
    }
  }
}

}  // namespace
}  // namespace canopy::server
