// canopy_server over fakes, for tests of the process. A model's source is a fake's kind (see
// test_server.h), or:
//
//   hold:FIFO   each forward reads FIFO to its end: it waits until the test has opened it for
//   writing
//               and closed it again
//   load:FIFO   loading does
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
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

absl::StatusOr<std::unique_ptr<ModelRunner>> Load(const server::ModelSource& model,
                                                  const server::ServerOptions& options) {
  const server::ModelLoader fakes = FakeLoader(std::make_shared<FakeControls>());
  absl::string_view source = model.source;
  if (absl::ConsumePrefix(&source, "hold:")) {
    auto runner = fakes.load({model.name, "reward"}, options);
    return std::make_unique<HeldRunner>(std::string(source), *std::move(runner));
  }
  if (absl::ConsumePrefix(&source, "load:")) {
    ReadToEnd(std::string(source));
    return fakes.load({model.name, "reward"}, options);
  }
  return fakes.load(model, options);
}

}  // namespace
}  // namespace canopy::testing

int main(int argc, char** argv) {
  using canopy::testing::FakeLoader;
  canopy::server::ModelLoader loader =
      FakeLoader(std::make_shared<canopy::testing::FakeControls>());
  loader.load = canopy::testing::Load;
  return canopy::server::RunServer(std::vector<std::string>(argv + 1, argv + argc), loader);
}
