// Measures the cost of metrics: the same small requests go to a server with metrics and to one
// without, in alternating rounds, with a model that computes nothing. Prints each pair and the
// medians.
//
//   metrics_cost [--pairs=10] [--seconds=3] [--callers=32]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/integration/test_server.h"

ABSL_FLAG(int, pairs, 10, "rounds of both servers");
ABSL_FLAG(double, seconds, 3, "of one round of one server");
ABSL_FLAG(int, callers, 32, "calls in flight");

namespace canopy::testing {
namespace {

using Clock = std::chrono::steady_clock;

class NoOpRunner final : public ModelRunner {
 public:
  std::shared_ptr<const ModelInfo> info() const override { return info_; }
  absl::StatusOr<PartOutput> Run(const TreePlan& plan,
                                 const OutputSelection& /*outputs*/) override {
    PartOutput output;
    output.scores.assign(plan.paths.size(), 0.5F);
    output.finite.assign(plan.paths.size(), 1);
    return output;
  }

 private:
  const std::shared_ptr<const ModelInfo> info_ = std::make_shared<const ModelInfo>(FakeModelInfo());
};

std::unique_ptr<server::Server> StartServer(bool metrics) {
  server::ServerOptions options;
  options.models = {{"m", "m"}};
  options.listen = "127.0.0.1:0";
  options.metrics_listen = metrics ? "127.0.0.1:0" : "";
  const auto loader = [](const ModelSource&, const ModelOptions&,
                         const Replacement*) -> absl::StatusOr<std::unique_ptr<ModelRunner>> {
    return std::make_unique<NoOpRunner>();
  };
  auto server = server::Server::Create(options);
  if (!server.ok() || !(*server)->LoadModels(loader).ok()) {
    std::fprintf(stderr, "metrics_cost: the server does not start\n");
    std::exit(EXIT_FAILURE);
  }
  (*server)->Serve();
  return *std::move(server);
}

// Returns one question of 4 candidates, 100 + 16 tokens.
std::string SmallRequest() {
  v1::ScoreRequest request;
  AddQuestion(&request, std::vector<uint32_t>(100, 7),
              std::vector<std::vector<uint32_t>>(4, std::vector<uint32_t>(16, 5)));
  return request.SerializeAsString();
}

// Sends the same bytes repeatedly until it is stopped.
class Caller {
 public:
  Caller(const std::shared_ptr<grpc::Channel>& channel, const std::string& bytes)
      : stub_(channel), slice_(bytes), request_(&slice_, 1) {}

  void Start(const std::atomic<bool>* stop, BlockingCounter* ended) {
    stop_ = stop;
    ended_ = ended;
    answered_ = 0;
    Send();
  }
  int64_t answered() const { return answered_; }

 private:
  void Send() {
    context_.emplace();
    stub_.UnaryCall(&*context_, "/canopy.v1.Scorer/Score", {}, &request_, &answer_,
                    [this](const grpc::Status& status) {
                      if (!status.ok()) {
                        std::fprintf(stderr, "metrics_cost: %s\n", status.error_message().c_str());
                        std::_Exit(EXIT_FAILURE);
                      }
                      ++answered_;
                      if (stop_->load(std::memory_order_relaxed)) {
                        ended_->DecrementCount();
                      } else {
                        Send();
                      }
                    });
  }

  grpc::GenericStub stub_;
  grpc::Slice slice_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
  std::optional<grpc::ClientContext> context_;
  const std::atomic<bool>* stop_ = nullptr;
  BlockingCounter* ended_ = nullptr;
  int64_t answered_ = 0;
};

struct Round {
  double requests_per_second = 0;
  double cpu_us = 0;  // of client and server, per request
};

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

class Side {
 public:
  explicit Side(bool metrics) : server_(StartServer(metrics)) {
    const auto channel = Connect(server_->address());
    const std::string bytes = SmallRequest();
    for (int i = 0; i < absl::GetFlag(FLAGS_callers); ++i) {
      callers_.push_back(std::make_unique<Caller>(channel, bytes));
    }
  }

  Round Run() {
    std::atomic<bool> stop{false};
    BlockingCounter ended(static_cast<int>(callers_.size()));
    const double cpu_start = CpuSeconds();
    const auto start = Clock::now();
    for (const auto& caller : callers_) {
      caller->Start(&stop, &ended);
    }
    absl::SleepFor(absl::Seconds(absl::GetFlag(FLAGS_seconds)));
    stop.store(true);
    ended.Wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const double cpu_seconds = CpuSeconds() - cpu_start;
    int64_t answered = 0;
    for (const auto& caller : callers_) {
      answered += caller->answered();
    }
    return {static_cast<double>(answered) / seconds,
            cpu_seconds * 1e6 / static_cast<double>(answered)};
  }

 private:
  const std::unique_ptr<server::Server> server_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void Measure() {
  Side on(/*metrics=*/true);
  Side off(/*metrics=*/false);
  // Warms up.
  on.Run();
  off.Run();
  std::vector<double> slower;
  std::vector<double> more_cpu;
  std::printf("pair  requests/s on  off        CPU us a request on  off\n");
  for (int pair = 0; pair < absl::GetFlag(FLAGS_pairs); ++pair) {
    // The order in a pair alternates, so that a drift favours neither server.
    const bool on_first = pair % 2 == 0;
    const Round first = on_first ? on.Run() : off.Run();
    const Round second = on_first ? off.Run() : on.Run();
    const Round& with = on_first ? first : second;
    const Round& without = on_first ? second : first;
    std::printf("%4d  %13.0f  %-9.0f  %19.2f  %.2f\n", pair + 1, with.requests_per_second,
                without.requests_per_second, with.cpu_us, without.cpu_us);
    std::fflush(stdout);
    slower.push_back(100 * (1 - with.requests_per_second / without.requests_per_second));
    more_cpu.push_back(100 * (with.cpu_us / without.cpu_us - 1));
  }
  std::printf(
      "metrics cost, medians of %d pairs: %.2f %% of the requests a second, %.2f %% more CPU\n",
      absl::GetFlag(FLAGS_pairs), Median(slower), Median(more_cpu));
}

}  // namespace
}  // namespace canopy::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  canopy::DisableDeadlockDetection();
  canopy::testing::Measure();
  return EXIT_SUCCESS;
}
