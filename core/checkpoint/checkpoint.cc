#include "core/checkpoint/checkpoint.h"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "core/checkpoint/safetensors.h"

namespace canopy {
namespace {

using nlohmann::json;

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr int64_t kMaxIndexBytes = 100'000'000;
constexpr int kMaxIndexDepth = 8;
constexpr int64_t kMaxIndexValues = 1'000'000;
constexpr size_t kMaxFileNameBytes = 255;

using Files = std::vector<std::shared_ptr<FileCopy>>;
// Maps the name of a tensor to the shard that holds it.
using ShardOfTensor = std::map<std::string, std::string>;

absl::Status BadFile(const std::string& path, const absl::Status& status) {
  return absl::DataLossError(absl::StrCat(path, ": ", status.message()));
}

// A folder or a device in place of a file makes the checkpoint bad. NOT_FOUND is returned
// unchanged.
absl::Status ToDataLoss(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
}

// Opens a file of tensors and reads its header: first the length of the header, then the rest.
absl::StatusOr<std::shared_ptr<FileCopy>> OpenTensors(FolderSnapshot* folder,
                                                      const std::string& name) {
  auto file = folder->OpenFile(name);
  if (!file.ok()) {
    return ToDataLoss(file.status());
  }
  CANOPY_RETURN_IF_ERROR(folder->Read(file->get(), SafetensorsHeaderEnd({})));
  CANOPY_RETURN_IF_ERROR(folder->Read(file->get(), SafetensorsHeaderEnd((*file)->bytes())));
  return file;
}

absl::StatusOr<std::vector<TensorView>> ParseFile(const FileCopy& file) {
  absl::StatusOr<std::vector<TensorView>> tensors = ParseSafetensors(file.bytes());
  if (!tensors.ok()) {
    return BadFile(file.path(), tensors.status());
  }
  return tensors;
}

bool IsPlainFileName(const std::string& name) {
  return name.size() <= kMaxFileNameBytes && absl::EndsWith(name, ".safetensors") &&
         name.front() != '.' && name.find_first_of("/\\\0", 0, 3) == name.npos &&
         !absl::StrContains(name, "..");
}

absl::StatusOr<ShardOfTensor> ParseIndex(absl::string_view text) {
  CANOPY_ASSIGN_OR_RETURN(const json index,
                          ParseStrictJson(text, {kMaxIndexBytes, kMaxIndexDepth, kMaxIndexValues}));
  if (!index.is_object()) {
    return absl::DataLossError("the index is not a JSON object");
  }
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object()) {
    return absl::DataLossError("weight_map is missing or not an object");
  }
  ShardOfTensor shard_of_tensor;
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!shard.is_string() || !IsPlainFileName(shard.get_ref<const std::string&>())) {
      return absl::DataLossError(absl::StrCat("weight_map places ", PrintableName(tensor), " in ",
                                              DescribeJson(shard),
                                              ", not a plain .safetensors file name"));
    }
    shard_of_tensor.emplace(tensor, shard.get<std::string>());
  }
  return shard_of_tensor;
}

// Appends the file of one shard and its tensors. The index must list these tensors in this shard.
absl::Status ReadShard(FolderSnapshot* folder, const std::string& shard,
                       const ShardOfTensor& shard_of_tensor, Files* files,
                       std::vector<TensorView>* tensors) {
  auto file = OpenTensors(folder, shard);
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(
        absl::StrCat(kIndexFile, " names ", folder->PathOf(shard), ", which is missing"));
  }
  CANOPY_RETURN_IF_ERROR(file.status());
  CANOPY_ASSIGN_OR_RETURN(std::vector<TensorView> found, ParseFile(**file));
  for (TensorView& tensor : found) {
    const auto place = shard_of_tensor.find(tensor.name);
    if (place == shard_of_tensor.end() || place->second != shard) {
      return absl::DataLossError(absl::StrCat(folder->PathOf(shard), " holds tensor ",
                                              PrintableName(tensor.name),
                                              ", which the index does not place there"));
    }
    tensors->push_back(std::move(tensor));
  }
  files->push_back(*std::move(file));
  return absl::OkStatus();
}

absl::Status CheckAllFound(const ShardOfTensor& shard_of_tensor, const WeightSource& source) {
  for (const auto& [tensor, shard] : shard_of_tensor) {
    if (source.Find(tensor) == nullptr) {
      return absl::DataLossError(absl::StrCat(kIndexFile, " places tensor ", PrintableName(tensor),
                                              " in ", shard, ", which does not hold it"));
    }
  }
  return absl::OkStatus();
}

void ReleaseIn(const Files& files, absl::Span<const uint8_t> bytes) {
  for (const std::shared_ptr<FileCopy>& file : files) {
    if (bytes.data() >= file->bytes().begin() && bytes.data() < file->bytes().end()) {
      file->Release(bytes);
    }
  }
}

absl::StatusOr<Checkpoint> ToCheckpoint(std::vector<TensorView> tensors, const Files& files,
                                        TensorUse use) {
  const auto owner = std::make_shared<Files>(files);
  WeightSource::ReleaseBytes release;
  if (use == TensorUse::kRelease) {
    release = [owner](absl::Span<const uint8_t> bytes) { ReleaseIn(*owner, bytes); };
  }
  CANOPY_ASSIGN_OR_RETURN(WeightSource source,
                          WeightSource::Create(std::move(tensors), owner, std::move(release)));
  return Checkpoint{std::move(source), files};
}

absl::StatusOr<Checkpoint> OpenSharded(FolderSnapshot* folder, const std::string& index,
                                       TensorUse use) {
  const absl::StatusOr<ShardOfTensor> shard_of_tensor = ParseIndex(index);
  if (!shard_of_tensor.ok()) {
    return BadFile(folder->PathOf(kIndexFile), shard_of_tensor.status());
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : *shard_of_tensor) {
    shards.insert(shard);
  }
  Files files;
  std::vector<TensorView> tensors;
  for (const std::string& shard : shards) {
    CANOPY_RETURN_IF_ERROR(ReadShard(folder, shard, *shard_of_tensor, &files, &tensors));
  }
  CANOPY_ASSIGN_OR_RETURN(Checkpoint checkpoint, ToCheckpoint(std::move(tensors), files, use));
  CANOPY_RETURN_IF_ERROR(CheckAllFound(*shard_of_tensor, checkpoint.source));
  return checkpoint;
}

}  // namespace

absl::StatusOr<Checkpoint> OpenCheckpoint(FolderSnapshot* folder, TensorUse use) {
  auto file = OpenTensors(folder, kSingleFile);
  if (file.ok()) {
    CANOPY_ASSIGN_OR_RETURN(std::vector<TensorView> tensors, ParseFile(**file));
    return ToCheckpoint(std::move(tensors), {*std::move(file)}, use);
  }
  if (!absl::IsNotFound(file.status())) {
    return file.status();
  }
  const absl::StatusOr<std::string> index = folder->ReadText(kIndexFile, kMaxIndexBytes);
  if (absl::IsNotFound(index.status())) {
    return absl::NotFoundError(
        absl::StrCat(folder->folder(), " holds neither ", kSingleFile, " nor ", kIndexFile));
  }
  if (!index.ok()) {
    return ToDataLoss(index.status());
  }
  return OpenSharded(folder, *index, use);
}

absl::StatusOr<WeightSource> LoadCheckpoint(const std::string& folder) {
  CANOPY_ASSIGN_OR_RETURN(FolderSnapshot snapshot, FolderSnapshot::Open(folder));
  CANOPY_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint(&snapshot));
  CANOPY_RETURN_IF_ERROR(checkpoint.ReadTensors(snapshot));
  CANOPY_RETURN_IF_ERROR(snapshot.CheckUnchanged());
  return std::move(checkpoint.source);
}

int64_t Checkpoint::file_bytes() const {
  int64_t bytes = 0;
  for (const std::shared_ptr<FileCopy>& file : files) {
    bytes += static_cast<int64_t>(file->bytes().size());
  }
  return bytes;
}

absl::Status Checkpoint::ReadTensors(const FolderSnapshot& folder) const {
  for (const std::shared_ptr<FileCopy>& file : files) {
    CANOPY_RETURN_IF_ERROR(folder.Read(file.get(), file->bytes().size()));
  }
  return absl::OkStatus();
}

}  // namespace canopy
