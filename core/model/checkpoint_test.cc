#include "core/model/checkpoint.h"

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kShard1[] = "model-00001-of-00002.safetensors";
constexpr char kShard2[] = "model-00002-of-00002.safetensors";

// A file of U8 tensors of two bytes each, all bytes equal to the name's last letter.
std::string FileWith(const std::vector<std::string>& names) {
  std::string header = "{";
  std::string data;
  for (const std::string& name : names) {
    const auto begin = static_cast<int64_t>(data.size());
    absl::StrAppend(&header, header.size() > 1 ? "," : "",
                    SafetensorsEntry(name, "U8", "[2]", begin, begin + 2));
    data += std::string(2, name.back());
  }
  return SafetensorsFile(header + "}", data);
}

std::string Index(const std::string& weight_map) {
  return absl::StrCat(R"({"metadata":{"total_size":6},"weight_map":)", weight_map, "}");
}

// A folder with a and c in the first shard and b in the second.
void WriteShards(const TemporaryFolder& folder) {
  folder.Write(kShard1, FileWith({"a", "c"}));
  folder.Write(kShard2, FileWith({"b"}));
  folder.Write(kIndex, Index(absl::StrCat(R"({"a":")", kShard1, R"(","b":")", kShard2, R"(","c":")",
                                          kShard1, R"("})")));
}

// What both ways of opening say.
absl::Status OpenStatus(const TemporaryFolder& folder) {
  absl::Status status = OpenCheckpoint(folder.path()).status();
  EXPECT_EQ(OpenCheckpointCopy(folder.path()).status(), status);
  return status;
}

TEST(CheckpointTest, ReadsASingleFile) {
  const TemporaryFolder folder;
  folder.Write(kSingle, FileWith({"b", "a"}));
  const auto source = OpenCheckpoint(folder.path());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->tensors().size(), 2U);
  EXPECT_EQ(source->tensors()[0].name, "a");
  EXPECT_THAT(source->Find("b")->bytes, ElementsAre('b', 'b'));
}

TEST(CheckpointTest, ReadsShardsAsOneSource) {
  const TemporaryFolder sharded;
  WriteShards(sharded);
  const auto source = OpenCheckpoint(sharded.path());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->tensors().size(), 3U);
  for (const TensorView& tensor : source->tensors()) {
    EXPECT_THAT(tensor.bytes, ElementsAre(tensor.name[0], tensor.name[0]));
  }
  const TemporaryFolder single;
  single.Write(kSingle, FileWith({"c", "b", "a"}));
  EXPECT_EQ(*source->Fingerprint(), *OpenCheckpoint(single.path())->Fingerprint());
}

TEST(CheckpointCopyTest, IsWhatWasThereWhateverComesAfter) {
  const TemporaryFolder folder;
  WriteShards(folder);
  const std::string fingerprint = *OpenCheckpoint(folder.path())->Fingerprint();
  const auto copy = OpenCheckpointCopy(folder.path());
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->file_bytes(),
            static_cast<int64_t>(FileWith({"a", "c"}).size() + FileWith({"b"}).size()));
  EXPECT_THAT(copy->source.Find("c")->bytes, ElementsAre(0, 0));
  ASSERT_TRUE(copy->ReadTensors(nullptr).ok());
  std::filesystem::resize_file(folder.Join(kShard1), 1);
  std::filesystem::resize_file(folder.Join(kShard2), 0);
  EXPECT_EQ(*copy->source.Fingerprint(), fingerprint);
}

TEST(CheckpointCopyTest, NoticesAFileThatIsCutWhileItIsRead) {
  const TemporaryFolder folder;
  WriteShards(folder);
  const auto copy = OpenCheckpointCopy(folder.path());
  ASSERT_TRUE(copy.ok()) << copy.status();
  std::filesystem::resize_file(folder.Join(kShard2), FileWith({"b"}).size() - 1);
  const absl::Status status = copy->ReadTensors(nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(status.message(), HasSubstr(kShard2));
}

TEST(CheckpointTest, PrefersTheSingleFileAsTransformersDoes) {
  const TemporaryFolder folder;
  WriteShards(folder);
  folder.Write(kSingle, FileWith({"z"}));
  EXPECT_EQ(OpenCheckpoint(folder.path())->tensors()[0].name, "z");
}

TEST(CheckpointTest, ViewsOutliveTheFolder) {
  std::optional<WeightSource> source;
  {
    const TemporaryFolder folder;
    WriteShards(folder);
    source = *OpenCheckpoint(folder.path());
  }
  EXPECT_THAT(source->Find("c")->bytes, ElementsAre('c', 'c'));
}

TEST(CheckpointTest, FollowsSymbolicLinks) {
  const TemporaryFolder blobs;
  const TemporaryFolder folder;
  std::filesystem::create_symlink(blobs.Write("blob", FileWith({"a"})), folder.Join(kSingle));
  EXPECT_TRUE(OpenStatus(folder).ok());
}

TEST(CheckpointTest, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_EQ(OpenCheckpoint(folder.Join("absent")).status().code(), absl::StatusCode::kNotFound);
  const std::string file = folder.Write("pytorch_model.bin", "x");
  EXPECT_EQ(OpenCheckpoint(file).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenStatus(folder).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(OpenStatus(folder).message(), HasSubstr("neither model.safetensors nor"));
}

TEST(CheckpointTest, NamesTheBadFile) {
  const TemporaryFolder folder;
  folder.Write(kSingle, "");
  EXPECT_EQ(OpenStatus(folder).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(OpenStatus(folder).message(), HasSubstr(folder.Join(kSingle)));
  folder.Write(kSingle, FileWith({"a"}) + "x");
  EXPECT_EQ(OpenStatus(folder).code(), absl::StatusCode::kDataLoss);
}

TEST(CheckpointTest, RefusesWhatIsNoFile) {
  for (const char* name : {kSingle, kIndex, kShard2}) {
    const TemporaryFolder folder;
    WriteShards(folder);
    std::filesystem::remove(folder.Join(name));
    std::filesystem::create_directory(folder.Join(name));
    EXPECT_EQ(OpenStatus(folder).code(), absl::StatusCode::kDataLoss) << name;
    std::filesystem::remove(folder.Join(name));
    ASSERT_EQ(mkfifo(folder.Join(name).c_str(), 0600), 0);
    EXPECT_EQ(OpenStatus(folder).code(), absl::StatusCode::kDataLoss) << name;
  }
}

TEST(CheckpointTest, RefusesBadIndexes) {
  const std::string good = absl::StrCat(R"("a":")", kShard1, R"(","c":")", kShard1, R"(")");
  for (const std::string& index : std::vector<std::string>{
           "", "[]", "{}", "null", "{\"weight_map\":[]}", "{\"weight_map\":null}",
           Index("{}") + "x", Index("\"a\""), Index(R"({"a":1})"), Index(R"({"a":null})"),
           Index(R"({"a":[]})"), "{\"weight_map\":{},\"weight_map\":{}}", std::string(100'000, '['),
           Index(absl::StrCat("{", good, ",\"a\":\"", kShard1, "\"}"))}) {
    const TemporaryFolder folder;
    WriteShards(folder);
    folder.Write(kIndex, index);
    EXPECT_EQ(OpenStatus(folder).code(), absl::StatusCode::kDataLoss) << index.substr(0, 80);
    EXPECT_THAT(OpenStatus(folder).message(), HasSubstr(kIndex)) << index.substr(0, 80);
  }
}

TEST(CheckpointTest, RefusesShardNamesThatCouldLeaveTheFolder) {
  const TemporaryFolder outside;
  const std::string absolute = outside.Write("x.safetensors", FileWith({"a"}));
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.Join("sub"));
  folder.Write("sub/x.safetensors", FileWith({"a"}));
  folder.Write("x.bin", FileWith({"a"}));
  folder.Write(".x.safetensors", FileWith({"a"}));
  folder.Write("a..safetensors", FileWith({"a"}));
  for (const std::string& shard : std::vector<std::string>{
           absolute, "sub/x.safetensors", "./x.safetensors", "../x.safetensors", "..", ".", "",
           "x.bin", ".x.safetensors", "a..safetensors", "sub\\\\x.safetensors",
           "x\\u0000.safetensors", ".safetensors", std::string(300, 'x') + ".safetensors"}) {
    folder.Write(kIndex, Index(absl::StrCat(R"({"a":")", shard, R"("})")));
    EXPECT_EQ(OpenStatus(folder).code(), absl::StatusCode::kDataLoss) << shard;
    EXPECT_THAT(OpenStatus(folder).message(), HasSubstr("not a plain .safetensors file name"));
  }
}

TEST(CheckpointTest, RefusesAnIndexThatDisagreesWithItsShards) {
  const TemporaryFolder folder;
  WriteShards(folder);
  std::filesystem::remove(folder.Join(kShard2));
  EXPECT_EQ(OpenStatus(folder).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(OpenStatus(folder).message(), HasSubstr("which is missing"));

  folder.Write(kShard2, FileWith({"other"}));
  EXPECT_THAT(OpenStatus(folder).message(), HasSubstr("holds tensor other, which the index"));
  folder.Write(kShard2, FileWith({"a", "b"}));
  EXPECT_THAT(OpenStatus(folder).message(), HasSubstr("holds tensor a, which the index"));
  folder.Write(kShard2, SafetensorsFile("{}", ""));
  EXPECT_EQ(OpenStatus(folder).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(OpenStatus(folder).message(), HasSubstr("places tensor b in"));
  folder.Write(kShard2, FileWith({"b"}).substr(0, 20));
  EXPECT_THAT(OpenStatus(folder).message(), HasSubstr(folder.Join(kShard2)));
  folder.Write(kShard2, FileWith({"b"}));
  EXPECT_TRUE(OpenStatus(folder).ok());
}

}  // namespace
}  // namespace canopy
