#include "core/checkpoint/host_model.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/checkpoint/synthetic.h"
#include "core/checkpoint/testing/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kFile[] = "model.safetensors";

// Returns the config of a small model of two layers. Few settings change the names and shapes of
// its tensors.
json LlamaConfig() {
  return json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 29,
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 300, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "tie_word_embeddings": true})");
}

json Qwen2Config() {
  json config = LlamaConfig();
  config.update({{"architectures", {"Qwen2Model"}}, {"model_type", "qwen2"}});
  return config;
}

json MoeConfig() {
  json config = LlamaConfig();
  config.update({{"architectures", {"Qwen3MoeForCausalLM"}},
                 {"model_type", "qwen3_moe"},
                 {"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 16},
                 {"norm_topk_prob", true}});
  return config;
}

// Returns `config` with the members of `changes`; null removes a member.
json With(json config, const json& changes) {
  config.merge_patch(changes);
  return config;
}

std::string WeightFile(const json& config, uint64_t seed = 1) {
  const auto weights = MakeSyntheticWeights(*ParseModelConfig(config.dump()), seed);
  EXPECT_TRUE(weights.ok()) << weights.status();
  std::vector<std::string> entries;
  std::string data;
  for (const TensorView& view : weights->tensors()) {
    const auto begin = static_cast<int64_t>(data.size());
    data.append(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
    entries.push_back(SafetensorsEntry(view.name, "F32",
                                       absl::StrCat("[", absl::StrJoin(view.shape, ","), "]"),
                                       begin, static_cast<int64_t>(data.size())));
  }
  return SafetensorsFile(absl::StrCat("{", absl::StrJoin(entries, ","), "}"), data);
}

HostModelOptions OptionsFor(const std::string& source) {
  HostModelOptions options;
  options.source = source;
  return options;
}

std::string FingerprintOf(const HostModelOptions& options) {
  const auto model = ReadHostModel(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? model->fingerprint : "";
}

// Returns the fingerprint of this config with weights made for `base`.
std::string FingerprintOf(const json& config, const json& base) {
  const TemporaryFolder folder;
  folder.Write("config.json", config.dump());
  folder.Write(kFile, WeightFile(base));
  return FingerprintOf(OptionsFor(folder.path()));
}

// A base config, and changes that do not affect the tensors.
struct ChangedSettings {
  const char* name;
  json base;
  std::vector<json> changes;
};

std::vector<ChangedSettings> Settings() {
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}};
  const auto scaled = [](json scaling, const json& change) {
    scaling.update(change);
    return json{{"rope_scaling", scaling}};
  };
  const json slides = {
      {"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 0}};
  return {
      {"sizes, norms and heads",
       LlamaConfig(),
       {{{"rms_norm_eps", 1e-5}},
        {{"rope_theta", 10001.0}},
        {{"max_position_embeddings", 301}},
        {{"architectures", {"LlamaModel"}}},
        {{"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"head_dim", 16}}}},
      {"rotary scaling",
       LlamaConfig(),
       {scaled({{"rope_type", "linear"}, {"factor", 2.0}}, json::object()),
        scaled({{"rope_type", "linear"}, {"factor", 3.0}}, json::object()),
        scaled(yarn, json::object()), scaled(yarn, {{"factor", 5.0}}),
        scaled(yarn, {{"original_max_position_embeddings", 64}}),
        scaled(yarn, {{"beta_fast", 31.0}}), scaled(yarn, {{"beta_slow", 2.0}}),
        scaled(yarn, {{"truncate", false}}), scaled(yarn, {{"attention_factor", 1.5}}),
        scaled(yarn, {{"mscale", 0.7}, {"mscale_all_dim", 0.5}}), scaled(llama3, json::object()),
        scaled(llama3, {{"low_freq_factor", 2.0}}), scaled(llama3, {{"high_freq_factor", 5.0}}),
        scaled(llama3, {{"original_max_position_embeddings", 65}})}},
      {"sliding windows",
       Qwen2Config(),
       {slides, With(slides, {{"sliding_window", 9}}), With(slides, {{"max_window_layers", 1}}),
        With(slides, {{"layer_types", {"sliding_attention", "full_attention"}}})}},
      {"experts", MoeConfig(), {{{"num_experts_per_tok", 3}}, {{"norm_topk_prob", false}}}},
  };
}

TEST(HostModelTest, EverySettingThatChangesAnAnswerChangesTheFingerprint) {
  for (const ChangedSettings& settings : Settings()) {
    std::map<std::string, std::string> seen = {
        {FingerprintOf(settings.base, settings.base), "base"}};
    for (const json& change : settings.changes) {
      const std::string fingerprint = FingerprintOf(With(settings.base, change), settings.base);
      const auto [place, is_new] = seen.emplace(fingerprint, change.dump());
      EXPECT_TRUE(is_new) << settings.name << ": " << change << " and " << place->second;
    }
  }
}

TEST(HostModelTest, ADefaultThatIsWrittenOutIsNoOtherSetting) {
  const json plain = LlamaConfig();
  const json yarn = With(plain, {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}});
  const struct {
    json base;
    std::vector<json> same;
  } cases[] = {
      {plain,
       {{{"rope_theta", 10000}},
        {{"rms_norm_eps", 0.000001}},
        {{"rope_scaling", nullptr}},
        {{"rope_theta", nullptr},
         {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}}}},
        {{"hidden_act", "silu"}, {"attention_bias", false}, {"mlp_bias", false}},
        {{"torch_dtype", "bfloat16"}, {"transformers_version", "5.17.0"}, {"use_cache", false}},
        {{"layer_types", {"full_attention", "full_attention"}}}}},
      {yarn,
       {{{"rope_scaling",
          {{"beta_fast", 32}, {"beta_slow", 1.0}, {"truncate", true}, {"mscale", nullptr}}}},
        {{"rope_scaling", {{"original_max_position_embeddings", 300}}}},
        {{"rope_scaling", {{"attention_factor", 1.1386294361119891}}}},
        {{"rope_scaling", {{"type", "yarn"}, {"rope_type", nullptr}}}}}},
      {Qwen2Config(),
       {{{"use_sliding_window", false}, {"sliding_window", 8}, {"max_window_layers", 1}},
        // A window that is at least as long as the longest path hides no token.
        {{"use_sliding_window", true}, {"sliding_window", 300}, {"max_window_layers", 0}}}},
      {MoeConfig(),
       {{{"num_experts", nullptr}, {"num_local_experts", 4}},
        {{"decoder_sparse_step", 1}, {"mlp_only_layers", json::array()}},
        // Sparse layers have no dense MLP.
        {{"intermediate_size", 48}}}},
  };
  for (const auto& item : cases) {
    const std::string base = FingerprintOf(item.base, item.base);
    for (const json& same : item.same) {
      EXPECT_EQ(FingerprintOf(With(item.base, same), item.base), base) << same;
    }
  }
}

TEST(HostModelTest, AnUntiedHeadThatIsNotStoredIsNone) {
  const json untied = With(LlamaConfig(), {{"tie_word_embeddings", false}});
  EXPECT_EQ(FingerprintOf(untied, LlamaConfig()),
            FingerprintOf(With(LlamaConfig(), {{"architectures", {"LlamaModel"}}}), LlamaConfig()));
  EXPECT_NE(FingerprintOf(untied, LlamaConfig()), FingerprintOf(LlamaConfig(), LlamaConfig()));
}

TEST(HostModelTest, TemperaturesRerankerTokensAndTensorsChangeTheFingerprint) {
  const TemporaryFolder folder;
  folder.Write("config.json", LlamaConfig().dump());
  folder.Write(kFile, WeightFile(LlamaConfig()));
  const HostModelOptions options = OptionsFor(folder.path());
  std::set<std::string> all = {FingerprintOf(options)};
  for (const char* kind : {"boolean", "choice", "score"}) {
    folder.Write("temperatures.json", absl::StrCat("{\"", kind, R"(":{"temperature":1.5}})"));
    all.insert(FingerprintOf(options));
  }
  EXPECT_EQ(all.size(), 4U);
  folder.Write("temperatures.json",
               R"({"choice": {"temperature": 1.0}, "score": {"temperature": 1}})");
  EXPECT_EQ(all.count(FingerprintOf(options)), 1U) << "1 is the default";
  std::filesystem::remove(folder.Join("temperatures.json"));

  folder.Write("reranker.json", R"({"yes_token": 3, "no_token": 4})");
  const std::string reranker = FingerprintOf(options);
  EXPECT_TRUE(all.insert(reranker).second);
  HostModelOptions flags = options;
  flags.reranker = RerankerTokens{3, 4};
  EXPECT_EQ(FingerprintOf(flags), reranker);
  for (const RerankerTokens wrong : {RerankerTokens{3, 3}, RerankerTokens{3, 29}}) {
    flags.reranker = wrong;
    EXPECT_EQ(ReadHostModel(flags).status().code(), absl::StatusCode::kInvalidArgument);
  }
  flags.reranker = RerankerTokens{4, 3};
  EXPECT_TRUE(all.insert(FingerprintOf(flags)).second);
  std::filesystem::remove(folder.Join("reranker.json"));
  flags.reranker = RerankerTokens{3, 4};
  EXPECT_EQ(FingerprintOf(flags), reranker) << "flags and files mean the same";

  folder.Write(kFile, WeightFile(LlamaConfig(), /*seed=*/2));
  EXPECT_TRUE(all.insert(FingerprintOf(options)).second);
}

TEST(HostModelTest, HowItIsReadLeavesTheFingerprintAlone) {
  const TemporaryFolder folder;
  folder.Write("config.json", LlamaConfig().dump());
  folder.Write(kFile, WeightFile(LlamaConfig()));
  HostModelOptions options = OptionsFor(folder.path());
  const std::string base = FingerprintOf(options);
  options.reading.num_threads = 4;
  options.reading.step_bytes = 1'000;
  EXPECT_EQ(FingerprintOf(options), base);
  // The same config is read from elsewhere. A vocabulary has its own hash.
  const TemporaryFolder elsewhere;
  options.config = elsewhere.Write("other.json", LlamaConfig().dump(2));
  folder.Write("tokenizer.json", "abc");
  EXPECT_EQ(FingerprintOf(options), base);
  EXPECT_EQ(ReadHostModel(options)->vocabulary_hash, "ba7816bf8f01cfea");
  // A different config from elsewhere replaces the folder's.
  options.config =
      elsewhere.Write("other.json", With(LlamaConfig(), {{"rms_norm_eps", 1e-4}}).dump());
  const std::string other = FingerprintOf(options);
  EXPECT_NE(other, base);
  EXPECT_EQ(other, FingerprintOf(With(LlamaConfig(), {{"rms_norm_eps", 1e-4}}), LlamaConfig()));
}

// Files that the index does not name are not read: shards of another download, partial files,
// pipes.
TEST(HostModelTest, FilesThatNobodyReadsMayHoldAnything) {
  constexpr char kShard[] = "model-00001-of-00001.safetensors";
  const TemporaryFolder folder;
  folder.Write("config.json", LlamaConfig().dump());
  folder.Write(kShard, WeightFile(LlamaConfig()));
  json index = {{"weight_map", json::object()}};
  const auto weights = MakeSyntheticWeights(*ParseModelConfig(LlamaConfig().dump()), /*seed=*/1);
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (const TensorView& view : weights->tensors()) {
    index["weight_map"][view.name] = kShard;
  }
  folder.Write("model.safetensors.index.json", index.dump());
  const std::string alone = FingerprintOf(OptionsFor(folder.path()));
  folder.Write("model-00001-of-00009.safetensors", "");
  folder.Write("model-00002-of-00009.safetensors", "version https://git-lfs.github.com/spec/v1");
  ASSERT_EQ(mkfifo(folder.Join("model-00003-of-00009.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(FingerprintOf(OptionsFor(folder.path())), alone);

  // A file that is read is explained.
  folder.Write(kShard, "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(ReadHostModel(OptionsFor(folder.path())).status().message(),
              HasSubstr(absl::StrCat(kShard, " is a Git LFS pointer")));
}

TEST(HostModelTest, SaysWhatAFileIsThatCannotBeRead) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\n";
  const TemporaryFolder folder;
  const std::string elsewhere = folder.Write("elsewhere.json", LlamaConfig().dump());
  const auto said = [&](const std::string& config = "") {
    HostModelOptions options = OptionsFor(folder.path());
    options.config = config;
    return std::string(ReadHostModel(options).status().message());
  };
  folder.Write(kFile, WeightFile(LlamaConfig()));
  folder.Write("config.json", pointer);
  EXPECT_THAT(said(), HasSubstr("config.json is a Git LFS pointer"));
  EXPECT_EQ(said(elsewhere), "") << "nobody reads the folder's own";
  folder.Write("config.json", LlamaConfig().dump());
  folder.Write(kFile, "");
  EXPECT_THAT(said(), HasSubstr("model.safetensors is empty"));

  std::filesystem::remove(folder.Join(kFile));
  ASSERT_EQ(symlink("../../blobs/4f689c87", folder.Join(kFile).c_str()), 0);
  EXPECT_THAT(said(), HasSubstr("symbolic link to nothing: copy the files that links point to"));
  std::filesystem::remove(folder.Join(kFile));
  ASSERT_EQ(symlink(kFile, folder.Join(kFile).c_str()), 0);
  EXPECT_THAT(said(), HasSubstr("Too many levels of symbolic links"));
  if (geteuid() == 0) {
    return;  // root may read every file
  }
  std::filesystem::remove(folder.Join(kFile));
  ASSERT_EQ(chmod(folder.Write(kFile, WeightFile(LlamaConfig())).c_str(), 0), 0);
  EXPECT_THAT(said(), HasSubstr("Permission denied"));
}

TEST(HostModelTest, SyntheticModelsHaveFingerprintsLikeFolders) {
  const TemporaryFolder folder;
  const auto of = [&folder](const json& config) {
    return FingerprintOf(OptionsFor("synthetic:" + folder.Write("any.json", config.dump())));
  };
  const std::string base = of(LlamaConfig());
  EXPECT_EQ(of(LlamaConfig()), base);
  EXPECT_NE(of(With(LlamaConfig(), {{"rope_theta", 9.0}})), base);
  // Synthetic weights use seed 0 and the same names.
  folder.Write("config.json", LlamaConfig().dump());
  folder.Write(kFile, WeightFile(LlamaConfig(), /*seed=*/0));
  EXPECT_EQ(FingerprintOf(OptionsFor(folder.path())), base);
}

TEST(HostModelTest, RerankerTokensNeedALanguageModel) {
  const TemporaryFolder folder;
  HostModelOptions options =
      OptionsFor("synthetic:" + folder.Write("any.json", Qwen2Config().dump()));
  options.reranker = RerankerTokens{1, 2};
  const absl::Status status = ReadHostModel(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("need a language model; this is a Qwen2Model"));
}

// Two checkpoints with equal names and shapes, but different contents in every file.
class ChangingCheckpointTest : public ::testing::Test {
 protected:
  using Files = std::map<std::string, std::string>;

  ChangingCheckpointTest() : first_(FilesOf(1)), second_(FilesOf(2)) {
    first_fingerprint_ = Write(first_);
    second_fingerprint_ = Write(second_);
  }

  static Files FilesOf(int seed) {
    const json config = With(LlamaConfig(), {{"rope_theta", 10'000 + seed}});
    return {{"config.json", config.dump()},
            {kFile, WeightFile(config, static_cast<uint64_t>(seed))},
            {"tokenizer.json", absl::StrCat("vocabulary ", seed)},
            {"temperatures.json", absl::StrCat(R"({"choice":{"temperature":1.)", seed, "}}")},
            {"reranker.json", absl::StrCat(R"({"yes_token":)", seed, R"(,"no_token":5})")}};
  }

  // Overwrites the existing files of the folder with `files`, and returns their fingerprint.
  std::string Write(const Files& files) const {
    Overwrite(files);
    return FingerprintOf(OptionsFor(folder_.path()));
  }

  // Only every third moment is tested, because each test waits until its fresh files may be read.
  static constexpr int kStride = 3;

  // Reads the folder, and makes a change at call `moment` of check_wanted. Returns true if there
  // were that many calls.
  bool ReadWithChangeAt(int moment, const std::function<void()>& change,
                        absl::StatusOr<HostModel>* model) const {
    HostModelOptions options = OptionsFor(source_.empty() ? folder_.path() : source_);
    options.reading.step_bytes = 4'000;
    int asked = 0;
    options.reading.check_wanted = [&] {
      if (++asked == moment) {
        change();
      }
      return absl::OkStatus();
    };
    *model = ReadHostModel(options);
    return asked >= moment;
  }

  // Reads the first checkpoint once for each moment, makes `change` at that moment, and passes the
  // result to `check`. `prepare` runs before each read.
  void ForEachMoment(const std::function<void()>& prepare, const std::function<void()>& change,
                     const std::function<void(const absl::StatusOr<HostModel>&)>& check) const {
    bool all_moments = false;
    for (int moment = 1; !all_moments; moment += kStride) {
      SCOPED_TRACE(absl::StrCat("moment ", moment));
      prepare();
      absl::StatusOr<HostModel> model;
      all_moments = !ReadWithChangeAt(moment, change, &model);
      check(model);
    }
  }

  // Overwrites the existing files of the folder with `files`.
  void Overwrite(const Files& files) const {
    for (const auto& [name, text] : files) {
      folder_.Write(name, text);
    }
  }

  const TemporaryFolder folder_;
  std::string source_;  // "" = the folder
  const Files first_;
  const Files second_;
  std::string first_fingerprint_;
  std::string second_fingerprint_;
};

TEST_F(ChangingCheckpointTest, AFileThatIsOverwrittenInPlaceGivesOneCheckpointOrDataLoss) {
  ASSERT_NE(first_fingerprint_, second_fingerprint_);
  int refused = 0;
  int served = 0;
  ForEachMoment([&] { Overwrite(first_); }, [&] { Overwrite(second_); },
                [&](const absl::StatusOr<HostModel>& model) {
                  if (model.ok()) {
                    EXPECT_TRUE(model->fingerprint == first_fingerprint_ ||
                                model->fingerprint == second_fingerprint_);
                    ++served;
                  } else {
                    EXPECT_EQ(model.status().code(), absl::StatusCode::kDataLoss) << model.status();
                    EXPECT_THAT(model.status().message(),
                                HasSubstr("while the checkpoint was read"));
                    ++refused;
                  }
                });
  EXPECT_GT(refused, 3);
  EXPECT_GT(served, 3);
}

TEST_F(ChangingCheckpointTest, AnyOneFileThatChangesIsNamed) {
  for (const auto& entry : first_) {
    const std::string& name = entry.first;
    int named = 0;
    ForEachMoment([&] { Overwrite(first_); }, [&] { folder_.Write(name, second_.at(name)); },
                  [&](const absl::StatusOr<HostModel>& model) {
                    if (!model.ok()) {
                      EXPECT_EQ(model.status().code(), absl::StatusCode::kDataLoss)
                          << model.status();
                      EXPECT_THAT(model.status().message(), HasSubstr(folder_.Join(name)));
                      ++named;
                    }
                  });
    EXPECT_GT(named, 0) << name;
  }
}

TEST_F(ChangingCheckpointTest, AFileThatIsCutShortGivesDataLossOrTheWholeCheckpoint) {
  int refused = 0;
  ForEachMoment([&] { Overwrite(first_); },
                [&] { std::filesystem::resize_file(folder_.Join(kFile), 100); },
                [&](const absl::StatusOr<HostModel>& model) {
                  if (model.ok()) {
                    EXPECT_EQ(model->fingerprint, first_fingerprint_);
                  } else {
                    EXPECT_EQ(model.status().code(), absl::StatusCode::kDataLoss) << model.status();
                    EXPECT_THAT(model.status().message(), HasSubstr(folder_.Join(kFile)));
                    ++refused;
                  }
                });
  EXPECT_GT(refused, 3);
}

TEST_F(ChangingCheckpointTest, ALinkThatMovesMixesNoFiles) {
  const TemporaryFolder other;
  for (const auto& [name, text] : second_) {
    other.Write(name, text);
  }
  Overwrite(first_);
  const TemporaryFolder root;
  const auto point_to = [&root](const TemporaryFolder& target) {
    std::filesystem::create_directory_symlink(target.path(), root.Join("new"));
    std::filesystem::rename(root.Join("new"), root.Join("latest"));
  };
  source_ = root.Join("latest");
  ForEachMoment([&] { point_to(folder_); }, [&] { point_to(other); },
                [&](const absl::StatusOr<HostModel>& model) {
                  ASSERT_TRUE(model.ok()) << model.status();
                  EXPECT_EQ(model->fingerprint, first_fingerprint_);
                });
}

TEST_F(ChangingCheckpointTest, ACheckpointThatIsReplacedByRenamingEachFileIsNoticed) {
  int refused = 0;
  ForEachMoment([&] { Overwrite(first_); },
                [&] {
                  for (const auto& [name, text] : second_) {
                    std::filesystem::rename(folder_.Write(name + ".tmp", text), folder_.Join(name));
                  }
                },
                [&](const absl::StatusOr<HostModel>& model) {
                  if (model.ok()) {
                    EXPECT_TRUE(model->fingerprint == first_fingerprint_ ||
                                model->fingerprint == second_fingerprint_);
                  } else {
                    EXPECT_EQ(model.status().code(), absl::StatusCode::kDataLoss) << model.status();
                    ++refused;
                  }
                });
  EXPECT_GT(refused, 3);
}

TEST_F(ChangingCheckpointTest, EndsAtAnyMomentWhenNobodyWantsIt) {
  HostModelOptions options = OptionsFor(folder_.path());
  options.reading.step_bytes = 5'000;
  int asked = 0;
  int stop = 0;
  options.reading.check_wanted = [&] {
    return ++asked == stop ? absl::CancelledError("gone") : absl::OkStatus();
  };
  ASSERT_TRUE(ReadHostModel(options).ok());
  const int steps = asked;
  for (stop = 1; stop <= steps; stop += kStride) {
    asked = 0;
    const absl::Status status = ReadHostModel(options).status();
    EXPECT_TRUE(absl::IsCancelled(status) || asked < stop) << stop << ": " << status;
  }
}

// The sparse file has 400 GB. Memory is checked before it is read, and the read ends when
// check_wanted returns an error.
TEST(HostModelTest, AFileLargerThanAnyMemoryIsRefusedOrGivenUpAtOnce) {
  constexpr int64_t kVocab = 1 << 24;
  constexpr int64_t kHidden = 6'400;
  const TemporaryFolder folder;
  folder.Write("config.json",
               With(LlamaConfig(), {{"vocab_size", kVocab}, {"hidden_size", kHidden}}).dump());
  const std::string entry =
      SafetensorsEntry("embed_tokens.weight", "F32", absl::StrCat("[", kVocab, ",", kHidden, "]"),
                       0, kVocab * kHidden * 4);
  const std::string start = SafetensorsFile(absl::StrCat("{", entry, "}"), "");
  const std::string path = folder.Write(kFile, start);
  const int64_t size = static_cast<int64_t>(start.size()) + kVocab * kHidden * 4;
  ASSERT_EQ(truncate(path.c_str(), size), 0);
  HostModelOptions options = OptionsFor(folder.path());
  options.check_room = [size](const WeightMemory& memory) {
    EXPECT_EQ(memory.host_bytes, size);
    EXPECT_EQ(memory.elements, kVocab * kHidden);
    EXPECT_EQ(memory.largest_elements, kVocab * kHidden);
    EXPECT_TRUE(memory.is_released);
    return absl::ResourceExhaustedError("no room");
  };
  EXPECT_TRUE(absl::IsResourceExhausted(ReadHostModel(options).status()));
  options.check_room = nullptr;
  int asked = 0;
  options.reading.check_wanted = [&asked] {
    return ++asked < 20 ? absl::OkStatus() : absl::CancelledError("gone");
  };
  EXPECT_TRUE(absl::IsCancelled(ReadHostModel(options).status()));
}

}  // namespace
}  // namespace canopy
