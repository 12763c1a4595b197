// Requests are answered while nobody reads the log and its pipe is full.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "gtest/gtest.h"
#include "tests/testing/answer.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using testing::Answer;
using testing::FakeControls;
using testing::FakeModelInfo;
using testing::FakeRunner;

// Replaces stderr by a pipe that is full until Drain.
class FullStderr {
 public:
  FullStderr() : saved_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe2(pipe_, O_NONBLOCK), 0);
    const std::string block(4'096, 'x');
    while (write(pipe_[1], block.data(), block.size()) > 0) {
    }
    while (write(pipe_[1], "x", 1) > 0) {
    }
    for (const int fd : pipe_) {
      EXPECT_EQ(fcntl(fd, F_SETFL, 0), 0);
    }
    EXPECT_GE(dup2(pipe_[1], STDERR_FILENO), 0);
    close(pipe_[1]);
  }
  ~FullStderr() {
    if (saved_ >= 0) {
      Drain();
    }
    reader_.join();
    close(pipe_[0]);
  }
  FullStderr(const FullStderr&) = delete;
  FullStderr& operator=(const FullStderr&) = delete;

  // Reads the pipe and restores stderr.
  void Drain() {
    reader_ = std::thread([this] {
      char block[4'096];
      for (ssize_t size = read(pipe_[0], block, sizeof(block)); size > 0;
           size = read(pipe_[0], block, sizeof(block))) {
        text_.append(block, static_cast<size_t>(size));
      }
    });
    // A line that waits is still written to the pipe.
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
  }

 private:
  int saved_;
  int pipe_[2] = {-1, -1};
  std::string text_;
  std::thread reader_;
};

ScoreJob SmallJob() {
  auto batch = std::make_shared<PathBatch>();
  batch->AddQuestion({1, 2}, {{3}, {4}});
  ScoreJob job;
  job.batch = std::move(batch);
  job.outputs.scores = true;
  return job;
}

TEST(FullLogTest, ALineOfTheDeviceThreadHoldsUpNoOtherThread) {
  ModelInfo info = FakeModelInfo();
  info.tree_supported = false;  // so that the first answer logs a fallback
  const auto controls = std::make_shared<FakeControls>();
  std::vector<std::unique_ptr<ModelRunner>> runners;
  runners.push_back(std::make_unique<FakeRunner>(info, controls));
  const std::unique_ptr<Engine> engine = *Engine::Create({}, std::move(runners));
  FullStderr log;
  Answer first;
  Answer second;
  ASSERT_TRUE(engine->Submit(SmallJob(), first.callback()).ok());
  std::future<EngineStats> used = std::async(std::launch::async, [&] {
    EXPECT_TRUE(first.Await().ok()) << "it is answered before it is logged";
    EXPECT_TRUE(engine->Submit(SmallJob(), second.callback()).ok());
    return engine->stats();
  });
  EXPECT_EQ(used.wait_for(std::chrono::seconds(20)), std::future_status::ready)
      << "a thread waits for the log";
  log.Drain();
  EXPECT_EQ(used.get().accepted, 2);
  EXPECT_TRUE(second.Await().ok());
}

}  // namespace
}  // namespace canopy
