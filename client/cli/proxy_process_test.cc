// Runs the programs in child processes with a proxy in their environment. Checks which calls go
// directly, which go through the proxy, and the texts of errors.
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/testing/fake_scorer.h"
#include "client/testing/samples.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kCanopy[] = "client/cli/canopy";
constexpr char kCanopyLoad[] = "client/load/canopy_load";

struct Result {
  int code = -1;
  std::string output;  // stdout and stderr
};

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts->size() + 1);
  for (std::string& text : *texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Runs a program with only `environment` as its environment, with entries NAME=VALUE.
Result RunProgram(const char* program, std::vector<std::string> arguments,
                  std::vector<std::string> environment) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fds[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, fds[0]);
  arguments.insert(arguments.begin(), program);
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, program, &actions, nullptr, Pointers(&arguments).data(),
                        Pointers(&environment).data()),
            0);
  posix_spawn_file_actions_destroy(&actions);
  close(fds[1]);
  Result result;
  char buffer[4096];
  for (ssize_t size = 0; (size = read(fds[0], buffer, sizeof(buffer))) > 0;) {
    result.output.append(buffer, static_cast<size_t>(size));
  }
  close(fds[0]);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// An HTTP proxy that connects every tunnel to one port of this machine, one after the other.
class FakeProxy {
 public:
  explicit FakeProxy(int server_port) : server_port_(server_port) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, generic, size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    EXPECT_EQ(getsockname(listener_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      for (int fd = accept(listener_, nullptr, nullptr); fd >= 0;
           fd = accept(listener_, nullptr, nullptr)) {
        Serve(fd);
        close(fd);
      }
    });
  }
  ~FakeProxy() { Stop(); }
  FakeProxy(const FakeProxy&) = delete;
  FakeProxy& operator=(const FakeProxy&) = delete;

  int port() const { return port_; }

  // Returns the heads of all requests, after the proxy has stopped.
  const std::string& Stop() {
    if (thread_.joinable()) {
      shutdown(listener_, SHUT_RDWR);
      thread_.join();
      close(listener_);
    }
    return heads_;
  }

 private:
  void Serve(int client) {
    std::string head;
    for (char c = 0; !absl::StrContains(head, "\r\n\r\n") && read(client, &c, 1) == 1;) {
      head += c;
    }
    heads_ += head;
    const sockaddr_in address = Loopback(server_port_);
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const std::string accepted = "HTTP/1.1 200 OK\r\n\r\n";
    EXPECT_EQ(write(client, accepted.data(), accepted.size()),
              static_cast<ssize_t>(accepted.size()));
    std::array<pollfd, 2> ends = {pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
    while (poll(ends.data(), 2, -1) > 0 && (ends[0].revents == 0 || Copy(client, server)) &&
           (ends[1].revents == 0 || Copy(server, client))) {
    }
    close(server);
  }

  static bool Copy(int from, int to) {
    char buffer[16384];
    const ssize_t size = recv(from, buffer, sizeof(buffer), 0);
    return size > 0 && send(to, buffer, static_cast<size_t>(size), MSG_NOSIGNAL) == size;
  }

  const int listener_ = socket(AF_INET, SOCK_STREAM, 0);
  const int server_port_;
  int port_ = 0;
  std::string heads_;  // used by the thread until it has ended
  std::thread thread_;
};

// Returns a port on which nobody listens.
std::string ClosedPort() {
  const FakeScorer gone;
  return gone.target();
}

class ProxyProcessTest : public ::testing::Test {
 protected:
  ProxyProcessTest() {
    server_.list_models = [](grpc::ServerContext* /*context*/,
                             const v1::ListModelsRequest& /*request*/,
                             v1::ListModelsResponse* response) {
      *response->add_models() = SampleModel();
      return grpc::Status::OK;
    };
    server_.get_model = [](grpc::ServerContext* /*context*/, const v1::GetModelRequest& /*request*/,
                           v1::Model* /*model*/) {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "the fake was reached");
    };
  }

  int server_port() const {
    return std::stoi(server_.target().substr(server_.target().rfind(':') + 1));
  }

  FakeScorer server_;
};

TEST_F(ProxyProcessTest, ThisMachineIsReachedDirectlyWhateverTheEnvironmentSays) {
  const std::string proxy = "http://" + ClosedPort();
  for (const char* variable : {"http_proxy", "https_proxy", "grpc_proxy"}) {
    const std::vector<std::string> environment = {absl::StrCat(variable, "=", proxy)};
    const Result model =
        RunProgram(kCanopy, {"model", "--server=" + server_.target()}, environment);
    EXPECT_EQ(model.code, 0) << variable << ": " << model.output;
    const Result load = RunProgram(kCanopyLoad, {"--targets=" + server_.target()}, environment);
    EXPECT_THAT(load.output, HasSubstr("the fake was reached")) << variable;
  }
}

TEST_F(ProxyProcessTest, AProxyLeadsToServersElsewhereWithItsCredentials) {
  FakeProxy proxy(server_port());
  const Result result =
      RunProgram(kCanopy, {"model", "--server=canopy.invalid:50051"},
                 {absl::StrCat("https_proxy=http://user:p%40ss@127.0.0.1:", proxy.port())});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(proxy.Stop(), AllOf(StartsWith("CONNECT canopy.invalid:50051 HTTP/1."),
                                  // user:p@ss
                                  HasSubstr("Proxy-Authorization: Basic dXNlcjpwQHNz\r\n")));
}

TEST_F(ProxyProcessTest, CapitalNoProxyAndRangesCount) {
  FakeProxy proxy(server_port());
  for (const char* no_proxy : {"NO_PROXY=192.0.2.0/24", "no_proxy=192.0.2.0/24", "NO_PROXY=*"}) {
    // 192.0.2.1 belongs to nobody. An error that names no proxy comes from a direct call.
    const Result result =
        RunProgram(kCanopy, {"health", "--server=192.0.2.1:50051", "--deadline=300ms"},
                   {absl::StrCat("http_proxy=http://127.0.0.1:", proxy.port()), no_proxy});
    EXPECT_EQ(result.code, 3) << result.output;
    EXPECT_THAT(result.output, Not(HasSubstr("proxy")));
  }
  EXPECT_EQ(proxy.Stop(), "");
}

TEST_F(ProxyProcessTest, ErrorsNameTheProxyAndNotItsPassword) {
  const std::string proxy = ClosedPort();
  for (const char* program : {kCanopy, kCanopyLoad}) {
    const std::vector<std::string> arguments =
        program == kCanopy
            ? std::vector<std::string>{"health", "--server=canopy.invalid:50051", "--deadline=5s"}
            : std::vector<std::string>{"--targets=canopy.invalid:50051", "--deadline=5s"};
    const Result result =
        RunProgram(program, arguments, {"http_proxy=http://user:secret@" + proxy});
    EXPECT_EQ(result.code, 3) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("through the proxy " + proxy + " (from http_proxy)"),
                                     Not(HasSubstr("secret"))));
  }
}

TEST_F(ProxyProcessTest, AProxyOfAnotherKindIsAUsageError) {
  const Result result = RunProgram(kCanopy, {"health", "--server=canopy.invalid:50051"},
                                   {"https_proxy=socks5://127.0.0.1:1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.output, HasSubstr("https_proxy: gRPC supports HTTP proxies only"));
}

}  // namespace
}  // namespace canopy::client
