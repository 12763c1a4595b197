// canopy_server with fake models, for tests of the process. A model's source is the kind of a fake
// (see test_server.h), or:
//
//   hold:FIFO   each forward reads FIFO to its end, so that it waits until the test has opened
//               FIFO for writing and closed it again
//   load:FIFO   loading reads FIFO in the same way
//   pace:FORWARD_US[:NANOSECONDS]   a forward takes this many microseconds, plus this many
//                                   nanoseconds per slot
//   noop        forwards take no time, and every score is zero
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/run_server.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

void ReadToEnd(const std::string& fifo) {
  const int fd = open(fifo.c_str(), O_RDONLY | O_CLOEXEC);
  char byte = 0;
  while (fd >= 0 && read(fd, &byte, 1) > 0) {
  }
  if (fd >= 0) {
    close(fd);
  }
}

class HeldRunner final : public ModelRunner {
 public:
  HeldRunner(std::string fifo, std::unique_ptr<ModelRunner> runner)
      : fifo_(std::move(fifo)), runner_(std::move(runner)) {}

  std::shared_ptr<const ModelInfo> info() const override { return runner_->info(); }

  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override {
    ReadToEnd(fifo_);
    return runner_->Run(plan, outputs);
  }

 private:
  const std::string fifo_;
  const std::unique_ptr<ModelRunner> runner_;
};

// A device without work, so that only the cost of everything around it remains.
class NoopRunner final : public ModelRunner {
 public:
  explicit NoopRunner(const std::string& name) {
    ModelInfo info = FakeModelInfo();
    info.name = name;
    info_ = std::make_shared<const ModelInfo>(std::move(info));
  }

  std::shared_ptr<const ModelInfo> info() const override { return info_; }

  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override {
    if (!outputs.scores || outputs.vectors || outputs.distributions() || outputs.values) {
      return absl::UnimplementedError("noop answers scores alone");
    }
    PartOutput output;
    output.scores.resize(plan.endpoints.size());
    output.finite.assign(plan.endpoints.size(), 1);
    return output;
  }

 private:
  std::shared_ptr<const ModelInfo> info_;
};

// Parses FORWARD_US[:NANOSECONDS].
absl::Status SetPace(absl::string_view text, FakeControls* controls) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  int64_t forward_us = 0;
  int64_t slot_ns = 0;
  if (parts.size() > 2 || !absl::SimpleAtoi(parts[0], &forward_us) ||
      (parts.size() == 2 && !absl::SimpleAtoi(parts[1], &slot_ns))) {
    return absl::InvalidArgumentError("pace:FORWARD_US[:NANOSECONDS] is wanted");
  }
  controls->Pace(absl::Microseconds(forward_us), absl::Nanoseconds(slot_ns));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ModelRunner>> Load(const ModelSource& model,
                                                  const ModelOptions& options,
                                                  const Replacement* replacement) {
  const auto controls = std::make_shared<FakeControls>();
  const server::ModelLoader fakes = FakeLoader(controls);
  absl::string_view source = model.source;
  if (absl::ConsumePrefix(&source, "hold:")) {
    auto runner = fakes({model.name, "reward"}, options, nullptr);
    return std::make_unique<HeldRunner>(std::string(source), *std::move(runner));
  }
  if (absl::ConsumePrefix(&source, "load:")) {
    ReadToEnd(std::string(source));
    return fakes({model.name, "reward"}, options, nullptr);
  }
  if (absl::ConsumePrefix(&source, "pace:")) {
    CANOPY_RETURN_IF_ERROR(SetPace(source, controls.get()));
    return fakes({model.name, "reward"}, options, nullptr);
  }
  if (source == "noop") {
    return std::make_unique<NoopRunner>(model.name);
  }
  return fakes(model, options, replacement);
}

}  // namespace
}  // namespace canopy::testing

int main(int argc, char** argv) {
  return canopy::server::RunServer(std::vector<std::string>(argv + 1, argv + argc),
                                   canopy::testing::Load);
}
