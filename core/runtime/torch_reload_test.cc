// Weights of real checkpoints that replace each other: the answers before and after, and files that
// are refused while the old weights keep serving.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/mutex.h"
#include "core/checkpoint/synthetic.h"
#include "core/checkpoint/testing/test_files.h"
#include "core/engine/engine.h"
#include "core/ops/testing/reference_kernel_ops.h"
#include "core/runtime/torch_runner.h"
#include "gtest/gtest.h"
#include "tests/testing/test_device.h"

namespace canopy {
namespace {

constexpr absl::string_view kConfig = R"({
  "architectures": ["Qwen3ForSequenceClassification"], "model_type": "qwen3", "num_labels": 1,
  "vocab_size": 29, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "hidden_act": "silu",
  "max_position_embeddings": 300, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "attention_bias": false})";

constexpr char kFile[] = "model.safetensors";

// Returns the weights of `seed` as a file; `edit` may change a tensor's bytes.
std::string WeightFile(uint64_t seed,
                       const std::function<void(const std::string&, std::string*)>& edit = nullptr,
                       absl::string_view config = kConfig) {
  const auto weights = MakeSyntheticWeights(*ParseModelConfig(config), seed);
  EXPECT_TRUE(weights.ok()) << weights.status();
  std::vector<std::string> entries;
  std::string data;
  for (const TensorView& view : weights->tensors()) {
    std::string bytes(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
    if (edit) {
      edit(view.name, &bytes);
    }
    const auto begin = static_cast<int64_t>(data.size());
    data += bytes;
    entries.push_back(
        SafetensorsEntry(absl::StrCat(view.name == "score.weight" ? "" : "model.", view.name),
                         "F32", absl::StrCat("[", absl::StrJoin(view.shape, ","), "]"), begin,
                         static_cast<int64_t>(data.size())));
  }
  return SafetensorsFile(absl::StrCat("{", absl::StrJoin(entries, ","), "}"), data);
}

void WriteCheckpoint(const TemporaryFolder& folder, const std::string& weights) {
  folder.Write("config.json", kConfig);
  folder.Write("tokenizer.json", "abc");
  folder.Write(kFile, weights);
}

TorchRunnerOptions OptionsFor(const std::string& source) {
  TorchRunnerOptions options;
  options.source.name = "ranker";
  options.source.source = source;
  options.model.device = TestDevice();
  options.model.dtype = "auto";
  options.model.threads = 1;
  options.prepare_routes = true;
  if (options.model.device == "cpu") {
    options.kernels = ReferenceKernels();
    options.model.policy = Policy::kReference;
  }
  return options;
}

std::unique_ptr<Engine> EngineFor(const std::string& source) {
  auto runner = LoadTorchRunner(OptionsFor(source));
  EXPECT_TRUE(runner.ok()) << runner.status();
  std::vector<std::unique_ptr<ModelRunner>> runners;
  runners.push_back(*std::move(runner));
  auto engine = Engine::Create({}, std::move(runners));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

std::vector<float> Scores(Engine* engine, Backend backend) {
  auto batch = std::make_shared<PathBatch>();
  batch->AddQuestion({1, 2, 3}, {{4, 5}, {4, 6}, {7}});
  batch->AddQuestion({1, 2}, {{8}, {9, 10, 11}});
  ScoreJob job;
  job.batch = batch;
  job.outputs.scores = true;
  job.routing.backend = backend;
  absl::StatusOr<ScoreResult> result;
  Notification done;
  EXPECT_TRUE(engine
                  ->Submit(job,
                           [&](absl::StatusOr<ScoreResult> answer) {
                             result = std::move(answer);
                             done.Notify();
                           })
                  .ok());
  done.WaitForNotification();
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->scores : std::vector<float>();
}

double MaxDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference = std::max(difference, std::abs(double{a[i]} - double{b[i]}));
  }
  return difference;
}

// An engine that serves while other weights load.
class TorchReloadTest : public ::testing::Test {
 protected:
  TorchReloadTest() {
    WriteCheckpoint(first_, WeightFile(1));
    engine_ = EngineFor(first_.path());
    replacement_.served = engine_->FindModel("");
    replacement_.run_on_device = [this](absl::string_view what,
                                        const std::function<absl::Status()>& work) {
      ++time_slices_[std::string(what)];
      return engine_->RunOnDevice(work);
    };
  }

  absl::StatusOr<std::unique_ptr<ModelRunner>> Load(const std::string& source) {
    TorchRunnerOptions options = OptionsFor(source);
    options.replacement = replacement_;
    options.available_bytes = available_bytes_;
    return LoadTorchRunner(options);
  }

  absl::Status LoadStatus(const TemporaryFolder& folder) { return Load(folder.path()).status(); }

  const TemporaryFolder first_;
  std::unique_ptr<Engine> engine_;
  Replacement replacement_;
  std::function<absl::StatusOr<int64_t>(absl::string_view)> available_bytes_;
  std::map<std::string, int> time_slices_;
};

TEST_F(TorchReloadTest, AnswersAreThoseOfAServerStartedWithEachCheckpoint) {
  const TemporaryFolder second;
  WriteCheckpoint(second, WeightFile(2));
  const std::unique_ptr<Engine> fresh = EngineFor(second.path());
  std::vector<Backend> backends = {Backend::kPath, Backend::kDense, Backend::kSegmented};
  if (replacement_.served->fused_supported) {
    backends.push_back(Backend::kFused);
  }
  std::vector<std::vector<float>> before;
  before.reserve(backends.size());
  for (const Backend backend : backends) {
    before.push_back(Scores(engine_.get(), backend));
  }
  auto next = Load(second.path());
  ASSERT_TRUE(next.ok()) << next.status();
  // Every backend and head was warmed up between forwards, each in one small piece.
  for (const Backend backend : backends) {
    EXPECT_EQ(time_slices_[std::string(BackendName(backend))], 1) << BackendName(backend);
  }
  EXPECT_EQ(time_slices_["heads"], 2) << "scores and values";
  const ModelInfo info = *(*next)->info();
  EXPECT_EQ(info.version, 2);
  EXPECT_EQ(info.fingerprint, fresh->FindModel("")->fingerprint);
  EXPECT_EQ(info.default_policy, replacement_.served->default_policy);
  EXPECT_EQ(info.route_costs, replacement_.served->route_costs);
  // The files are not needed any more.
  std::filesystem::resize_file(second.Join(kFile), 0);
  for (size_t i = 0; i < backends.size(); ++i) {
    EXPECT_LT(MaxDifference(Scores(engine_.get(), backends[i]), before[i]), 1e-5);
  }
  ASSERT_TRUE(engine_->ReplaceModel(*std::move(next), info.fingerprint).ok());
  for (size_t i = 0; i < backends.size(); ++i) {
    const std::vector<float> after = Scores(engine_.get(), backends[i]);
    EXPECT_LT(MaxDifference(after, Scores(fresh.get(), backends[i])), 1e-5);
    EXPECT_GT(MaxDifference(after, before[i]), 1e-3);
  }
}

TEST_F(TorchReloadTest, BadFilesAreRefusedByName) {
  const std::string good = WeightFile(2);
  const auto poison = [](float value) {
    return WeightFile(2, [value](const std::string& name, std::string* bytes) {
      if (name == "layers.1.mlp.down_proj.weight") {
        std::memcpy(&(*bytes)[8], &value, sizeof(value));
      }
    });
  };
  const std::string not_finite = "model.layers.1.mlp.down_proj.weight is not finite at element 2";
  const struct {
    std::string file;
    std::string text;
  } cases[] = {
      {good.substr(0, good.size() - 1), "data bytes"},
      {good.substr(0, 100), "header of"},
      {good.substr(0, 5), "shorter than its header length field"},
      {"", "model.safetensors is empty"},
      {absl::StrReplaceAll(good, {{"[29,64]", "[64,29]"}}), "of the wrong shape"},
      {absl::StrReplaceAll(good, {{"\"F32\"", "\"I32\""}}), "of a dtype other than"},
      {absl::StrReplaceAll(good, {{"model.norm.weight", "model.morn.weight"}}), "1 missing"},
      {poison(std::numeric_limits<float>::quiet_NaN()), not_finite},
      {poison(-std::numeric_limits<float>::infinity()), not_finite},
  };
  for (const auto& bad : cases) {
    const TemporaryFolder folder;
    WriteCheckpoint(folder, bad.file);
    const absl::Status status = LoadStatus(folder);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), bad.text)) << status;
    // A server does not start with this file either.
    EXPECT_EQ(LoadTorchRunner(OptionsFor(folder.path())).status(), status);
  }
  EXPECT_TRUE(time_slices_.empty());
}

TEST_F(TorchReloadTest, AFolderThatPoolsOtherwiseIsRefused) {
  const TemporaryFolder folder;
  WriteCheckpoint(folder, WeightFile(2));
  std::filesystem::create_directory(folder.Join("1_Pooling"));
  folder.Write("1_Pooling/config.json", R"({"pooling_mode": "mean"})");
  folder.Write("modules.json", R"([{"path": "1_Pooling",
                                    "type": "sentence_transformers.models.Pooling"}])");
  const absl::Status status = LoadStatus(folder);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "pools by \"mean\"")) << status;
  EXPECT_TRUE(time_slices_.empty());
}

TEST_F(TorchReloadTest, FilesThatAreNotThereAreRefused) {
  const TemporaryFolder folder;
  EXPECT_TRUE(absl::IsNotFound(LoadStatus(folder)));
  folder.Write("config.json", kConfig);
  EXPECT_TRUE(absl::IsNotFound(LoadStatus(folder)));
}

TEST_F(TorchReloadTest, OtherModelsAreRefusedBeforeTheyTouchTheDevice) {
  const TemporaryFolder folder;
  WriteCheckpoint(folder, WeightFile(2));
  folder.Write("tokenizer.json", "other");
  EXPECT_TRUE(absl::StrContains(LoadStatus(folder).message(), "vocabulary_hash"))
      << LoadStatus(folder);
  folder.Write("tokenizer.json", "abc");
  folder.Write("config.json", absl::StrReplaceAll(kConfig, {{": 300", ": 301"}}));
  EXPECT_TRUE(absl::StrContains(LoadStatus(folder).message(), "max_path_tokens 301, and 300"));
  folder.Write("config.json", kConfig);
  replacement_.expected_fingerprint = "0000000000000000";
  EXPECT_TRUE(absl::IsFailedPrecondition(LoadStatus(folder)));
  EXPECT_TRUE(time_slices_.empty());
  replacement_.expected_fingerprint = "";
  EXPECT_TRUE(LoadStatus(folder).ok());
}

TEST_F(TorchReloadTest, MemoryIsAskedForBeforeAnyTensorIsRead) {
  const TemporaryFolder folder;
  WriteCheckpoint(folder, WeightFile(2));
  available_bytes_ = [](absl::string_view) { return 1'000; };
  const absl::Status status = LoadStatus(folder);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "and 1000 are available")) << status;
  TorchRunnerOptions start = OptionsFor(folder.path());
  start.available_bytes = available_bytes_;
  EXPECT_TRUE(absl::IsResourceExhausted(LoadTorchRunner(start).status()));
  start.source.source = "synthetic:" + folder.Join("config.json");
  EXPECT_TRUE(absl::IsResourceExhausted(LoadTorchRunner(start).status()));
}

// A checkpoint takes several reading steps. Another one overwrites it in place, or it is truncated,
// at each step: at the start of a server, and for LoadWeights.
TEST_F(TorchReloadTest, FilesThatChangeWhileTheyAreReadGiveOneCheckpointOrDataLoss) {
  const std::string config = absl::StrReplaceAll(
      kConfig, {{"\"vocab_size\": 29", "\"vocab_size\": 150000"}, {"10000.0", "20000.0"}});
  const std::string weights[] = {WeightFile(1, nullptr, config), WeightFile(2, nullptr, config)};
  ASSERT_GT(weights[0].size(), size_t{32} << 20) << "three steps";
  const TemporaryFolder folder;
  std::vector<std::string> fingerprints;
  for (const std::string& file : weights) {
    WriteCheckpoint(folder, file);
    folder.Write("config.json", config);
    TorchRunnerOptions options = OptionsFor(folder.path());
    options.prepare_routes = false;
    const auto runner = LoadTorchRunner(options);
    ASSERT_TRUE(runner.ok()) << runner.status();
    fingerprints.push_back((*runner)->info()->fingerprint);
    replacement_.served = (*runner)->info();
  }
  ASSERT_NE(fingerprints[0], fingerprints[1]);
  const std::function<void()> overwrite = [&] { folder.Write(kFile, weights[1]); };
  const std::function<void()> cut = [&] {
    std::filesystem::resize_file(folder.Join(kFile), 1'000);
  };
  for (const bool is_start : {true, false}) {
    int refused = 0;
    // The files are opened at the first call of check_wanted, and before the fifteenth call all of
    // them have been read.
    for (int moment = 1; moment < 30; moment += 2) {
      const bool is_cut = moment % 4 == 1;
      folder.Write(kFile, weights[0]);
      TorchRunnerOptions options = OptionsFor(folder.path());
      options.prepare_routes = false;
      if (!is_start) {
        options.replacement = replacement_;
      }
      int asked = 0;
      options.check_wanted = [&] {
        if (++asked == moment) {
          (is_cut ? cut : overwrite)();
        }
        return absl::OkStatus();
      };
      const auto runner = LoadTorchRunner(options);
      EXPECT_GE(asked, moment);
      if (runner.ok()) {
        const std::string& fingerprint = (*runner)->info()->fingerprint;
        EXPECT_TRUE(fingerprint == fingerprints[0] || (!is_cut && fingerprint == fingerprints[1]));
      } else {
        EXPECT_TRUE(absl::IsDataLoss(runner.status())) << runner.status();
        EXPECT_TRUE(absl::StrContains(runner.status().message(), folder.Join(kFile)))
            << runner.status();
        ++refused;
      }
    }
    EXPECT_GE(refused, 3);
  }
}

TEST_F(TorchReloadTest, EndsSoonWhenNobodyWantsIt) {
  const TemporaryFolder folder;
  WriteCheckpoint(folder, WeightFile(2));
  // Loading is cancelled at each step.
  int asked = 0;
  replacement_.check_wanted = [&asked] {
    ++asked;
    return absl::OkStatus();
  };
  ASSERT_TRUE(LoadStatus(folder).ok());
  const int steps = asked;
  EXPECT_GT(steps, 10);
  for (int stop = 1; stop <= steps; stop += 5) {
    asked = 0;
    replacement_.check_wanted = [&asked, stop] {
      return ++asked < stop ? absl::OkStatus() : absl::CancelledError("gone");
    };
    const absl::Status status = LoadStatus(folder);
    // Waiting for a file to be old enough changes the number of checks.
    EXPECT_TRUE(absl::IsCancelled(status) || asked < stop) << stop << ": " << status;
  }
}

}  // namespace
}  // namespace canopy
