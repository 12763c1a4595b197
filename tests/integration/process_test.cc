// canopy_server as a process: exit codes, output and signals.
#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/test_server.h"

extern char** environ;

namespace canopy::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kServer[] = "tests/integration/fake_canopy_server";

// A child process whose output can be read while it runs. The destructor kills it.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments, const char* program = kServer) {
    int out[2];
    int err[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    arguments.insert(arguments.begin(), program);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) {
      argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, program, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    out_fd_ = out[0];
    // The output is read all the time, because a full pipe would block the child.
    err_reader_ = std::thread([fd = err[0], this] {
      char buffer[4096];
      for (ssize_t size = 0; (size = read(fd, buffer, sizeof(buffer))) > 0;) {
        errors_.append(buffer, static_cast<size_t>(size));
      }
      close(fd);
    });
  }

  ~Child() {
    if (!waited_) {
      kill(pid_, SIGKILL);
      Wait();
    }
    close(out_fd_);
  }

  void Signal(int signal) const { kill(pid_, signal); }

  // Reads one line of standard output; '' at the end.
  std::string ReadLine() {
    std::string line;
    for (char c = 0; read(out_fd_, &c, 1) == 1 && c != '\n';) {
      line += c;
    }
    return line;
  }

  // Returns the address that the child prints.
  std::string AwaitAddress() {
    const std::string line = ReadLine();
    EXPECT_THAT(line, StartsWith("listening on "));
    return std::string(absl::StripPrefix(line, "listening on "));
  }

  // Returns the exit code; -1 = a signal ended the child.
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    waited_ = true;
    err_reader_.join();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Returns standard error. Precondition: Wait has returned.
  const std::string& errors() const { return errors_; }

 private:
  pid_t pid_ = 0;
  int out_fd_ = -1;
  bool waited_ = false;
  std::string errors_;
  std::thread err_reader_;
};

// A FIFO that blocks the device or the loading of a child.
class BlockingFifo {
 public:
  BlockingFifo() : path_(absl::StrCat(::testing::TempDir(), "/hold.", getpid())) {
    unlink(path_.c_str());
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
  }
  ~BlockingFifo() {
    Release();
    unlink(path_.c_str());
  }

  const std::string& path() const { return path_; }
  // Returns after the child has opened the FIFO, where it stays blocked.
  void AwaitHeld() { fd_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC); }
  void Release() {
    if (fd_ >= 0) {
      close(fd_);
    }
    fd_ = -1;
  }

 private:
  const std::string path_;
  int fd_ = -1;
};

v1::ScoreRequest SmallRequest() {
  v1::ScoreRequest request;
  AddQuestion(&request, {1, 2}, {{3}, {4}});
  return request;
}

// A Score call in flight.
struct PendingCall {
  explicit PendingCall(const std::string& address) : stub(v1::Scorer::NewStub(Connect(address))) {
    SetTestDeadline(&context);
    stub->async()->Score(&context, &request, &response, [this](grpc::Status result) {
      status = std::move(result);
      done.Notify();
    });
  }
  grpc::StatusCode Wait() {
    done.WaitForNotification();
    return status.error_code();
  }

  std::unique_ptr<v1::Scorer::Stub> stub;
  grpc::ClientContext context;
  v1::ScoreRequest request = SmallRequest();
  v1::ScoreResponse response;
  grpc::Status status;
  Notification done;
};

TEST(StartTest, HelpAndVersionExitWithZero) {
  Child help({"--help"});
  EXPECT_THAT(help.ReadLine(), StartsWith("canopy_server: "));
  EXPECT_EQ(help.Wait(), 0);
  Child version({"--version"});
  EXPECT_THAT(version.ReadLine(), StartsWith("canopy_server 0."));
  EXPECT_EQ(version.Wait(), 0);
}

TEST(StartTest, WrongValuesStopItWithOneLineAndTwo) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--nonsense=1", "--model=reward"}, "--nonsense: unknown flag"},
      {{"--threads=many", "--model=reward"}, "--threads: 'many' is not valid"},
      {{"--max_paths=0", "--model=reward"}, "--max_paths: '0' is not in 1 .. 2147483647"},
      {{}, "--model: at least one is needed"},
      {{"--model=reward", "--listen=0.0.0.0:0"}, "--insecure"},
      {{"--model=reward", "--admin_listen=127.0.0.1:0"}, "without --weights_root"},
      {{"--model=reward", "--policy=fastest"}, "one of: auto, reference, measured"},
      {{"--model=reward", "--check_config", "extra"}, "unexpected argument 'extra'"},
  };
  for (const auto& [arguments, text] : cases) {
    Child child(arguments);
    EXPECT_EQ(child.Wait(), 2);
    EXPECT_THAT(child.errors(), StartsWith("canopy_server: "));
    EXPECT_THAT(child.errors(), HasSubstr(text));
    EXPECT_EQ(std::count(child.errors().begin(), child.errors().end(), '\n'), 1) << child.errors();
  }
}

TEST(StartTest, ATakenPortStopsItWithOneLineAndTwo) {
  Child first({"--model=reward", "--listen=127.0.0.1:0"});
  const std::string address = first.AwaitAddress();
  Child second({"--model=reward", "--listen=" + address});
  EXPECT_EQ(second.Wait(), 2);
  EXPECT_EQ(second.errors(),
            "canopy_server: cannot listen on " + address + ": address already in use\n");
}

TEST(StartTest, ModelsThatDoNotLoadStopItWithTwo) {
  Child child({"--model=nothing", "--listen=127.0.0.1:0"});
  EXPECT_EQ(child.Wait(), 2);
  EXPECT_THAT(child.errors(), HasSubstr("canopy_server: --model nothing: no such fake\n"));
  Child check({"--model=nothing", "--check_config"});
  EXPECT_EQ(check.Wait(), 2);
  Child good({"--model=reward", "--check_config"});
  EXPECT_EQ(good.ReadLine(), "configuration ok");
  EXPECT_EQ(good.Wait(), 0);
}

TEST(StartTest, WritesItsPortAndServesSeveralModels) {
  const std::string port_file = absl::StrCat(::testing::TempDir(), "/port.", getpid());
  Child child({"--model=a=reward", "--model=b=vectors", "--listen=127.0.0.1:0",
               absl::StrCat("--port_file=", port_file), "--log_format=json"});
  const std::string address = child.AwaitAddress();
  std::string port;
  std::getline(std::ifstream(port_file), port);
  EXPECT_EQ(address, absl::StrCat("127.0.0.1:", port));
  grpc::ClientContext context;
  v1::ListModelsResponse models;
  EXPECT_TRUE(Succeeded(v1::Scorer::NewStub(Connect(address))->ListModels(&context, {}, &models)));
  ASSERT_EQ(models.models_size(), 2);
  EXPECT_EQ(models.models(0).name(), "a");
  EXPECT_EQ(models.models(1).name(), "b");
  child.Signal(SIGINT);
  EXPECT_EQ(child.Wait(), 0);
  for (const absl::string_view line : absl::StrSplit(child.errors(), '\n', absl::SkipEmpty())) {
    EXPECT_TRUE(absl::StartsWith(line, "{\"time\":")) << line;
  }
}

// Opens a connection that sends nothing; -1 = refused.
int ConnectSilently(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(port));
  peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

TEST(ConnectionTest, RunningOutOfDescriptorsHarmsNobodyElse) {
  Child child(
      {"-c", absl::StrCat("ulimit -n 96 && exec ", kServer,
                          " --model=reward --listen=127.0.0.1:0 --metrics_listen=127.0.0.1:0")},
      "/bin/sh");
  const std::string address = child.AwaitAddress();
  const auto stub = v1::Scorer::NewStub(Connect(address));
  const auto get_model = [](v1::Scorer::Stub* client) {
    grpc::ClientContext context;
    SetTestDeadline(&context);
    v1::Model model;
    return client->GetModel(&context, {}, &model).error_code();
  };
  ASSERT_EQ(get_model(stub.get()), grpc::StatusCode::OK);
  std::vector<int> connections;
  connections.reserve(300);
  for (int i = 0; i < 300; ++i) {
    connections.push_back(ConnectSilently(address));
  }
  // The system completes connections before the server accepts them. If the last refused connection
  // is closed, all earlier ones were handled.
  char byte = 0;
  EXPECT_LE(recv(connections.back(), &byte, 1, 0), 0);
  EXPECT_EQ(get_model(stub.get()), grpc::StatusCode::OK);
  for (const int fd : connections) {
    close(fd);
  }
  grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE;
  for (int i = 0; i < 1'000 && code == grpc::StatusCode::UNAVAILABLE; ++i) {
    code = get_model(v1::Scorer::NewStub(Connect(address)).get());
  }
  EXPECT_EQ(code, grpc::StatusCode::OK);
  child.Signal(SIGTERM);
  EXPECT_EQ(child.Wait(), 0);
}

// Sends requests until the server refuses one, which shows that it has received the signal.
void AwaitDraining(const std::string& address) {
  const auto stub = v1::Scorer::NewStub(Connect(address));
  grpc::Status status;
  do {
    grpc::ClientContext context;
    SetTestDeadline(&context);
    v1::Model model;
    status = stub->GetModel(&context, {}, &model);
  } while (status.ok());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(SignalTest, TheFirstFinishesCallsInFlight) {
  for (const int signal : {SIGTERM, SIGINT}) {
    BlockingFifo hold;
    Child child({absl::StrCat("--model=m=hold:", hold.path()), "--listen=127.0.0.1:0"});
    const std::string address = child.AwaitAddress();
    PendingCall call(address);
    hold.AwaitHeld();
    child.Signal(signal);
    AwaitDraining(address);
    hold.Release();
    EXPECT_EQ(call.Wait(), grpc::StatusCode::OK);
    EXPECT_EQ(call.response.results(0).candidates(0).score(), FakeScore({1, 2, 3}, 0));
    EXPECT_EQ(child.Wait(), 0);
    EXPECT_THAT(child.errors(), HasSubstr("stopped calls_finished=true"));
  }
}

TEST(SignalTest, TheSecondExitsAtOnce) {
  BlockingFifo hold;
  Child child({absl::StrCat("--model=m=hold:", hold.path()), "--listen=127.0.0.1:0"});
  const std::string address = child.AwaitAddress();
  PendingCall call(address);
  hold.AwaitHeld();
  child.Signal(SIGTERM);
  AwaitDraining(address);
  child.Signal(SIGTERM);
  EXPECT_EQ(child.Wait(), 1);
  EXPECT_EQ(call.Wait(), grpc::StatusCode::UNAVAILABLE);
}

TEST(SignalTest, AHangingDeviceDoesNotKeepTheProcess) {
  BlockingFifo hold;
  Child child(
      {absl::StrCat("--model=m=hold:", hold.path()), "--listen=127.0.0.1:0", "--drain_seconds=0"});
  PendingCall call(child.AwaitAddress());
  hold.AwaitHeld();
  child.Signal(SIGTERM);
  EXPECT_EQ(child.Wait(), 1);
  EXPECT_THAT(child.errors(), HasSubstr("stop_timeout"));
  EXPECT_NE(call.Wait(), grpc::StatusCode::OK);
}

TEST(SignalTest, WhileLoadingItExitsAtOnce) {
  BlockingFifo hold;
  Child child({absl::StrCat("--model=m=load:", hold.path()), "--listen=127.0.0.1:0"});
  hold.AwaitHeld();
  child.Signal(SIGTERM);
  EXPECT_EQ(child.Wait(), 0);
}

}  // namespace
}  // namespace canopy::testing
