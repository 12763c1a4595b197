#include "core/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/checkpoint/testing/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kShard1[] = "model-00001-of-00002.safetensors";
constexpr char kShard2[] = "model-00002-of-00002.safetensors";

// Returns a file of U8 tensors of two bytes each, which are equal to the last letter of the name.
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

// Writes a folder with a and c in the first shard and b in the second.
void WriteShards(const TemporaryFolder& folder) {
  folder.Write(kShard1, FileWith({"a", "c"}));
  folder.Write(kShard2, FileWith({"b"}));
  folder.Write(kIndex, Index(absl::StrCat(R"({"a":")", kShard1, R"(","b":")", kShard2, R"(","c":")",
                                          kShard1, R"("})")));
}

absl::Status OpenStatus(const TemporaryFolder& folder) {
  return LoadCheckpoint(folder.path()).status();
}

FolderSnapshot SnapshotOf(const TemporaryFolder& folder, ReadOptions options = {}) {
  return *FolderSnapshot::Open(folder.path(), std::move(options));
}

int64_t OpenDescriptors() {
  using Iterator = std::filesystem::directory_iterator;
  return std::distance(Iterator("/proc/self/fd"), Iterator());
}

// Returns the bytes of all tensors in name order.
std::string BytesOf(const WeightSource& source) {
  std::string bytes;
  for (const TensorView& tensor : source.tensors()) {
    bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  return bytes;
}

TEST(CheckpointTest, ReadsASingleFile) {
  const TemporaryFolder folder;
  folder.Write(kSingle, FileWith({"b", "a"}));
  const auto source = LoadCheckpoint(folder.path());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->tensors().size(), 2U);
  EXPECT_EQ(source->tensors()[0].name, "a");
  EXPECT_THAT(source->Find("b")->bytes, ElementsAre('b', 'b'));
}

TEST(CheckpointTest, ReadsShardsAsOneSource) {
  const TemporaryFolder sharded;
  WriteShards(sharded);
  const auto source = LoadCheckpoint(sharded.path());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->tensors().size(), 3U);
  for (const TensorView& tensor : source->tensors()) {
    EXPECT_THAT(tensor.bytes, ElementsAre(tensor.name[0], tensor.name[0]));
  }
}

TEST(CheckpointTest, ReadsHeadersFirstAndIsWhatWasThereWhateverComesAfter) {
  const TemporaryFolder folder;
  WriteShards(folder);
  FolderSnapshot snapshot = SnapshotOf(folder);
  const auto checkpoint = OpenCheckpoint(&snapshot);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->file_bytes(),
            static_cast<int64_t>(FileWith({"a", "c"}).size() + FileWith({"b"}).size()));
  EXPECT_EQ(BytesOf(checkpoint->source), std::string(6, '\0'));
  ASSERT_TRUE(checkpoint->ReadTensors(snapshot).ok());
  std::filesystem::resize_file(folder.Join(kShard1), 1);
  std::filesystem::resize_file(folder.Join(kShard2), 0);
  EXPECT_EQ(BytesOf(checkpoint->source), "aabbcc");
  EXPECT_EQ(snapshot.CheckUnchanged().code(), absl::StatusCode::kDataLoss);
}

TEST(CheckpointTest, ClosesEachFileOnceItIsRead) {
  const TemporaryFolder folder;
  WriteShards(folder);
  const int64_t before = OpenDescriptors();
  FolderSnapshot snapshot = SnapshotOf(folder);
  const auto checkpoint = OpenCheckpoint(&snapshot);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(OpenDescriptors(), before + 3) << "the folder and two shards";
  ASSERT_TRUE(checkpoint->ReadTensors(snapshot).ok());
  EXPECT_EQ(OpenDescriptors(), before + 1) << "the folder";
}

TEST(CheckpointTest, NoticesAFileThatIsCutWhileItIsRead) {
  const TemporaryFolder folder;
  WriteShards(folder);
  FolderSnapshot snapshot = SnapshotOf(folder);
  const auto checkpoint = OpenCheckpoint(&snapshot);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::filesystem::resize_file(folder.Join(kShard2), FileWith({"b"}).size() - 1);
  const absl::Status status = checkpoint->ReadTensors(snapshot);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(status.message(), HasSubstr(kShard2));
}

// A symbolic link to the folder may change at any moment. All shards still come from one
// checkpoint.
TEST(CheckpointTest, ALinkThatMovesMixesNoShards) {
  const TemporaryFolder root;
  const TemporaryFolder first;
  const TemporaryFolder second;
  WriteShards(first);
  WriteShards(second);
  std::string upper = FileWith({"a", "c"});
  upper.replace(upper.size() - 4, 4, "AACC");
  second.Write(kShard1, upper);
  upper = FileWith({"b"});
  upper.replace(upper.size() - 2, 2, "BB");
  second.Write(kShard2, upper);
  const auto point_to = [&root](const TemporaryFolder& target) {
    std::filesystem::create_directory_symlink(target.path(), root.Join("new"));
    std::filesystem::rename(root.Join("new"), root.Join("latest"));
  };
  bool all_moments = false;
  for (int moment = 1; !all_moments; ++moment) {
    point_to(first);
    int asked = 0;
    ReadOptions options;
    options.check_wanted = [&] {
      if (++asked == moment) {
        point_to(second);
      }
      return absl::OkStatus();
    };
    auto snapshot = FolderSnapshot::Open(root.Join("latest"), options);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    const auto checkpoint = OpenCheckpoint(&*snapshot);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    ASSERT_TRUE(checkpoint->ReadTensors(*snapshot).ok());
    EXPECT_TRUE(snapshot->CheckUnchanged().ok());
    EXPECT_EQ(BytesOf(checkpoint->source), "aabbcc") << "moved at question " << moment;
    all_moments = asked < moment;
    EXPECT_TRUE(moment > 5 || !all_moments) << "there are that many moments at least";
  }
}

TEST(CheckpointTest, ReleasedTensorsGiveTheirMemoryBack) {
  constexpr size_t kBytes = size_t{4} << 20;
  const TemporaryFolder folder;
  const std::string header = "{" + SafetensorsEntry("a", "U8", "[4194304]", 0, kBytes) + "," +
                             SafetensorsEntry("b", "U8", "[4194304]", kBytes, 2 * kBytes) + "}";
  folder.Write(kSingle, SafetensorsFile(header, std::string(2 * kBytes, 'x')));
  for (const TensorUse use : {TensorUse::kKeep, TensorUse::kRelease}) {
    FolderSnapshot snapshot = SnapshotOf(folder);
    const auto checkpoint = OpenCheckpoint(&snapshot, use);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    ASSERT_TRUE(checkpoint->ReadTensors(snapshot).ok());
    const WeightSource& source = checkpoint->source;
    source.Release(*source.Find("a"));
    // Pages within the tensor are zeros again. The pages at its ends are shared with other bytes
    // and stay.
    EXPECT_EQ(source.Find("a")->bytes[kBytes / 2], use == TensorUse::kKeep ? 'x' : 0);
    EXPECT_EQ(BytesOf(source).substr(kBytes), std::string(kBytes, 'x'));
  }
}

TEST(CheckpointTest, PrefersTheSingleFileAsTransformersDoes) {
  const TemporaryFolder folder;
  WriteShards(folder);
  folder.Write(kSingle, FileWith({"z"}));
  EXPECT_EQ(LoadCheckpoint(folder.path())->tensors()[0].name, "z");
}

TEST(CheckpointTest, ViewsOutliveTheFolder) {
  std::optional<WeightSource> source;
  {
    const TemporaryFolder folder;
    WriteShards(folder);
    source = *LoadCheckpoint(folder.path());
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
  EXPECT_EQ(LoadCheckpoint(folder.Join("absent")).status().code(), absl::StatusCode::kNotFound);
  const std::string file = folder.Write("pytorch_model.bin", "x");
  EXPECT_EQ(LoadCheckpoint(file).status().code(), absl::StatusCode::kNotFound);
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
