#include "core/checkpoint/folder_pooling.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/checkpoint/folder_snapshot.h"
#include "core/checkpoint/testing/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTransformer[] =
    R"({"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"})";
constexpr char kPooling[] = R"({"idx": 1, "name": "1", "path": "1_Pooling",
                                "type": "sentence_transformers.models.Pooling"})";
constexpr char kDense[] = R"({"idx": 2, "name": "2", "path": "2_Dense",
                              "type": "sentence_transformers.models.Dense"})";
constexpr char kNormalize[] = R"({"idx": 3, "name": "3", "path": "3_Normalize",
                                  "type": "sentence_transformers.models.Normalize"})";

// The contents of the folders of Qwen3-Embedding.
constexpr char kLastToken[] = R"({"word_embedding_dimension": 1024, "pooling_mode_cls_token": false,
  "pooling_mode_mean_tokens": false, "pooling_mode_max_tokens": false,
  "pooling_mode_mean_sqrt_len_tokens": false, "pooling_mode_weightedmean_tokens": false,
  "pooling_mode_lasttoken": true, "include_prompt": true})";
// The configuration that sentence-transformers writes for a plain model.
constexpr char kMean[] = R"({"word_embedding_dimension": 384, "pooling_mode_cls_token": false,
  "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false,
  "pooling_mode_mean_sqrt_len_tokens": false})";

class FolderPoolingTest : public ::testing::Test {
 protected:
  FolderPoolingTest() { std::filesystem::create_directory(folder_.Join("1_Pooling")); }

  void WriteModules(const std::vector<std::string>& modules) {
    std::string text = "[";
    for (const std::string& module : modules) {
      absl::StrAppend(&text, text.size() > 1 ? "," : "", module);
    }
    folder_.Write("modules.json", text + "]");
  }
  void WritePooling(const std::string& text) { folder_.Write("1_Pooling/config.json", text); }

  absl::StatusOr<FolderPooling> Load() const {
    absl::StatusOr<FolderSnapshot> folder = FolderSnapshot::Open(folder_.path());
    if (!folder.ok()) {
      return folder.status();
    }
    return ReadFolderPooling(&*folder);
  }

  const TemporaryFolder folder_;
};

TEST_F(FolderPoolingTest, APlainFolderSaysNothingAndIsAccepted) {
  const auto pooling = Load();
  ASSERT_TRUE(pooling.ok()) << pooling.status();
  EXPECT_EQ(pooling->mode, "");
  EXPECT_FALSE(pooling->normalizes);
  EXPECT_TRUE(CheckLastTokenPooling(*pooling).ok());
}

TEST_F(FolderPoolingTest, AcceptsTheLastTokenAndReportsNormalization) {
  WriteModules({kTransformer, kPooling, kNormalize});
  WritePooling(kLastToken);
  const auto pooling = Load();
  ASSERT_TRUE(pooling.ok()) << pooling.status();
  EXPECT_EQ(pooling->mode, "last");
  EXPECT_TRUE(pooling->normalizes);
  EXPECT_THAT(pooling->other_modules, IsEmpty());
  EXPECT_TRUE(CheckLastTokenPooling(*pooling).ok());
}

TEST_F(FolderPoolingTest, RefusesEveryOtherPooling) {
  WriteModules({kTransformer, kPooling});
  const struct {
    const char* config;
    const char* mode;
  } cases[] = {
      {kMean, "mean"},
      {R"({"pooling_mode_mean_tokens": false, "pooling_mode_cls_token": true})", "cls"},
      {R"({"pooling_mode_mean_tokens": false, "pooling_mode_max_tokens": true})", "max"},
      {R"({"pooling_mode_mean_tokens": false, "pooling_mode_weightedmean_tokens": true})",
       "weightedmean"},
      {R"({"pooling_mode_mean_tokens": false, "pooling_mode_mean_sqrt_len_tokens": true})",
       "mean_sqrt_len_tokens"},
      {R"({"pooling_mode_mean_tokens": true, "pooling_mode_lasttoken": true})", "mean+last"},
      // The library's default is the mean, and it concatenates all modes that are true.
      {R"({"pooling_mode_lasttoken": true})", "mean+last"},
      {R"({"word_embedding_dimension": 8})", "mean"},
      {R"({"pooling_mode_mean_tokens": false})", "none"},
      // The keys of version 5.4 and later.
      {R"({"embedding_dimension": 8, "pooling_mode": "mean"})", "mean"},
      {R"({"embedding_dimension": 8, "pooling_mode": ["cls", "lasttoken"]})", "cls+last"},
  };
  for (const auto& item : cases) {
    WritePooling(item.config);
    const auto pooling = Load();
    ASSERT_TRUE(pooling.ok()) << pooling.status();
    EXPECT_EQ(pooling->mode, item.mode);
    const absl::Status status = CheckLastTokenPooling(*pooling);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << item.config;
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("pools by \"", item.mode, "\"")));
    EXPECT_THAT(status.message(), HasSubstr("--pooling=last"));
  }
  WritePooling(R"({"embedding_dimension": 8, "pooling_mode": "lasttoken"})");
  EXPECT_TRUE(CheckLastTokenPooling(*Load()).ok());
}

TEST_F(FolderPoolingTest, RefusesLayersBehindThePooling) {
  WritePooling(kLastToken);
  WriteModules({kTransformer, kPooling, kDense, kNormalize});
  EXPECT_THAT(CheckLastTokenPooling(*Load()).message(),
              HasSubstr("has the module sentence_transformers.models.Dense"));
  // A class of another package may behave in any way, whatever its name.
  WriteModules({R"({"path": "", "type": "custom_st.Transformer"})", kPooling});
  EXPECT_THAT(CheckLastTokenPooling(*Load()).message(),
              HasSubstr("has the module custom_st.Transformer"));
  WritePooling(kMean);
  WriteModules({kTransformer, kPooling, kDense});
  EXPECT_THAT(CheckLastTokenPooling(*Load()).message(),
              HasSubstr("pools by \"mean\" and has the module"));
}

// The names are those of version 5.4, and those in a reranker's folder.
TEST_F(FolderPoolingTest, KnowsModulesByTheirClassAndReportsIgnoredOnes) {
  WritePooling(kLastToken);
  WriteModules(
      {R"({"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"})",
       R"({"path": "1_Pooling",
                    "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"})",
       R"({"path": "2_LogitScore",
                    "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"})"});
  const auto pooling = Load();
  ASSERT_TRUE(pooling.ok()) << pooling.status();
  EXPECT_EQ(pooling->mode, "last");
  EXPECT_TRUE(CheckLastTokenPooling(*pooling).ok());
  EXPECT_THAT(pooling->ignored_modules,
              ElementsAre("sentence_transformers.cross_encoder.modules.logit_score.LogitScore"));
}

TEST_F(FolderPoolingTest, ReadsAPoolingThatNoModulesFileNames) {
  WritePooling(kMean);
  EXPECT_EQ(Load()->mode, "mean");
}

TEST_F(FolderPoolingTest, NamesTheFileThatIsMalformed) {
  const auto error = [&](const std::string& modules, const std::string& pooling) {
    folder_.Write("modules.json", modules);
    WritePooling(pooling);
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    return std::string(status.message());
  };
  const std::string good = absl::StrCat("[", kTransformer, ",", kPooling, "]");
  EXPECT_THAT(error("{}", kMean), HasSubstr("modules.json: {} is not a list"));
  EXPECT_THAT(error("[1]", kMean), HasSubstr("modules.json: 1 has no type and path"));
  EXPECT_THAT(error("[", kMean), HasSubstr("modules.json: "));
  EXPECT_THAT(error(good, "[]"), HasSubstr("1_Pooling/config.json: not a JSON object"));
  EXPECT_THAT(error(good, R"({"pooling_mode_lasttoken": 1})"),
              HasSubstr("pooling_mode_lasttoken: 1 is not true or false"));
  EXPECT_THAT(error(good, R"({"pooling_mode": 1})"), HasSubstr("pooling_mode: 1 is not a name"));
  for (const char* path : {"../1_Pooling", "/1_Pooling", ""}) {
    EXPECT_THAT(error(absl::StrCat(R"([{"path": ")", path,
                                   R"(", "type": "sentence_transformers.models.Pooling"}])"),
                      kMean),
                HasSubstr("is not inside the folder"));
  }
  std::filesystem::remove_all(folder_.Join("1_Pooling"));
  folder_.Write("modules.json", good);
  EXPECT_THAT(Load().status().message(),
              HasSubstr("1_Pooling/config.json: missing, although modules.json names it"));
}

// Without limits, 3,300 modules that name the same file of nearly 1 MiB would give a mode of 3 GB.
TEST_F(FolderPoolingTest, BoundsWhatAHostileFolderSays) {
  const auto error = [&] {
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_LT(status.message().size(), 600U);
    return std::string(status.message());
  };
  const auto pooling_mode = [&](const std::string& value) {
    WritePooling(absl::StrCat(R"({"pooling_mode": )", value, "}"));
  };
  const std::string million(1'000'000, 'x');
  pooling_mode("\"last\"");
  WriteModules(std::vector<std::string>(33, kPooling));
  EXPECT_THAT(error(), HasSubstr("modules.json: 33 modules exceed 32"));
  WriteModules(std::vector<std::string>(32, kPooling));
  EXPECT_EQ(Load()->mode.size(), 32 * 5 - 1);

  WriteModules({kTransformer, kPooling});
  pooling_mode(absl::StrCat("\"", std::string(64, 'x'), "\""));
  EXPECT_EQ(Load()->mode, std::string(64, 'x'));
  for (const std::string& mode : {std::string(65, 'x'), million, std::string(), std::string("a b"),
                                  std::string(R"(a\nb)"), std::string("\xc3\xa9")}) {
    pooling_mode(absl::StrCat("\"", mode, "\""));
    EXPECT_THAT(error(), HasSubstr("1_Pooling/config.json: pooling_mode: "));
    EXPECT_THAT(error(), HasSubstr("is not a name of at most 64 bytes"));
  }
  pooling_mode(absl::StrCat(R"(["cls")", std::string(9'000 * 6, ' '), R"(, "mean"])"));
  EXPECT_EQ(Load()->mode, "cls+mean");
  std::string list = "\"cls\"";
  for (int i = 0; i < 9'000; ++i) {
    list += ",\"cls\"";
  }
  pooling_mode(absl::StrCat("[", list, "]"));
  EXPECT_THAT(error(), HasSubstr("joins names to 36003 bytes, not to 1 to 64"));
  pooling_mode("[]");
  EXPECT_THAT(error(), HasSubstr("joins names to 0 bytes"));

  pooling_mode("\"last\"");
  const auto module = [](const std::string& path, const std::string& type) {
    return absl::StrCat(R"({"path": ")", path, R"(", "type": ")", type, "\"}");
  };
  const std::string pooling_type = "sentence_transformers.models.Pooling";
  WriteModules({module("x", std::string(256, 'x'))});
  EXPECT_THAT(Load()->other_modules, ElementsAre(std::string(256, 'x')));
  for (const std::string& type : {std::string(257, 'x'), million, std::string(R"(a\nb)")}) {
    WriteModules({module("x", type)});
    EXPECT_THAT(error(), HasSubstr("is not a name of at most 256 bytes"));
  }
  WriteModules({module(million, pooling_type)});
  EXPECT_THAT(error(), HasSubstr("is not inside the folder, in at most 256 bytes"));
}

}  // namespace
}  // namespace canopy
