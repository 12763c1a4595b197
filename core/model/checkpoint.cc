#include "core/model/checkpoint.h"

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/mapped_file.h"
#include "core/model/safetensors.h"
#include "core/model/strict_json.h"

namespace canopy {
namespace {

using nlohmann::json;

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr int64_t kMaxIndexBytes = 100'000'000;
constexpr int kMaxIndexDepth = 8;
constexpr int64_t kMaxIndexValues = 1'000'000;
constexpr size_t kMaxFileNameBytes = 255;

// An open file with its tensors' headers in memory, and what keeps it there.
struct OpenFile {
  absl::Span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
};
// How files of tensors are opened.
using FileOpener = std::function<absl::StatusOr<OpenFile>(const std::string& path)>;
using Owners = std::vector<std::shared_ptr<const void>>;
// Tensor name to the shard that holds it.
using ShardOfTensor = std::map<std::string, std::string>;

absl::Status BadFile(const std::string& path, const absl::Status& status) {
  return absl::DataLossError(absl::StrCat(path, ": ", status.message()));
}

// NOT_FOUND passes through; a folder or a device in place of the file is a bad checkpoint.
absl::StatusOr<std::shared_ptr<const MappedFile>> OpenMember(const std::string& path) {
  auto file = MappedFile::Open(path);
  if (absl::IsInvalidArgument(file.status())) {
    return absl::DataLossError(file.status().message());
  }
  return file;
}

absl::StatusOr<OpenFile> OpenMapped(const std::string& path) {
  CANOPY_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, OpenMember(path));
  const absl::Span<const uint8_t> bytes = file->bytes();
  return OpenFile{bytes, std::move(file)};
}

absl::StatusOr<std::shared_ptr<FileCopy>> CopyHeader(const std::string& path) {
  auto file = FileCopy::Open(path);
  if (absl::IsInvalidArgument(file.status())) {
    return absl::DataLossError(file.status().message());
  }
  CANOPY_RETURN_IF_ERROR(file.status());
  // First the header's length, then the header.
  CANOPY_RETURN_IF_ERROR((*file)->ReadTo(SafetensorsHeaderEnd({})));
  CANOPY_RETURN_IF_ERROR((*file)->ReadTo(SafetensorsHeaderEnd((*file)->bytes())));
  return file;
}

absl::StatusOr<std::vector<TensorView>> ParseFile(const std::string& path,
                                                  absl::Span<const uint8_t> file) {
  absl::StatusOr<std::vector<TensorView>> tensors = ParseSafetensors(file);
  if (!tensors.ok()) {
    return BadFile(path, tensors.status());
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

// Appends the tensors of one shard, all of which the index must place there.
absl::Status ReadShard(const std::string& folder, const std::string& shard,
                       const ShardOfTensor& shard_of_tensor, const FileOpener& open_file,
                       Owners* owners, std::vector<TensorView>* tensors) {
  const std::string path = absl::StrCat(folder, "/", shard);
  auto file = open_file(path);
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(absl::StrCat(kIndexFile, " names ", path, ", which is missing"));
  }
  if (!file.ok()) {
    return file.status();
  }
  CANOPY_ASSIGN_OR_RETURN(std::vector<TensorView> found, ParseFile(path, file->bytes));
  for (TensorView& tensor : found) {
    const auto place = shard_of_tensor.find(tensor.name);
    if (place == shard_of_tensor.end() || place->second != shard) {
      return absl::DataLossError(absl::StrCat(path, " holds tensor ", PrintableName(tensor.name),
                                              ", which the index does not place there"));
    }
    tensors->push_back(std::move(tensor));
  }
  owners->push_back(std::move(file->owner));
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

absl::StatusOr<WeightSource> OpenSharded(const std::string& folder, const MappedFile& index,
                                         const FileOpener& open_file) {
  const absl::StatusOr<ShardOfTensor> shard_of_tensor = ParseIndex(index.text());
  if (!shard_of_tensor.ok()) {
    return BadFile(absl::StrCat(folder, "/", kIndexFile), shard_of_tensor.status());
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : *shard_of_tensor) {
    shards.insert(shard);
  }
  auto owners = std::make_shared<Owners>();
  std::vector<TensorView> tensors;
  for (const std::string& shard : shards) {
    CANOPY_RETURN_IF_ERROR(
        ReadShard(folder, shard, *shard_of_tensor, open_file, owners.get(), &tensors));
  }
  CANOPY_ASSIGN_OR_RETURN(WeightSource source,
                          WeightSource::Create(std::move(tensors), std::move(owners)));
  CANOPY_RETURN_IF_ERROR(CheckAllFound(*shard_of_tensor, source));
  return source;
}

absl::StatusOr<WeightSource> Open(const std::string& folder, const FileOpener& open_file) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return absl::NotFoundError(absl::StrCat("no checkpoint folder ", folder));
  }
  const std::string single = absl::StrCat(folder, "/", kSingleFile);
  auto file = open_file(single);
  if (file.ok()) {
    CANOPY_ASSIGN_OR_RETURN(std::vector<TensorView> tensors, ParseFile(single, file->bytes));
    return WeightSource::Create(std::move(tensors), std::move(file->owner));
  }
  if (!absl::IsNotFound(file.status())) {
    return file.status();
  }
  auto index = OpenMember(absl::StrCat(folder, "/", kIndexFile));
  if (absl::IsNotFound(index.status())) {
    return absl::NotFoundError(
        absl::StrCat(folder, " holds neither ", kSingleFile, " nor ", kIndexFile));
  }
  if (!index.ok()) {
    return index.status();
  }
  return OpenSharded(folder, **index, open_file);
}

}  // namespace

absl::StatusOr<WeightSource> OpenCheckpoint(const std::string& folder) {
  return Open(folder, OpenMapped);
}

absl::StatusOr<CheckpointCopy> OpenCheckpointCopy(const std::string& folder) {
  std::vector<std::shared_ptr<FileCopy>> files;
  const auto open_copy = [&files](const std::string& path) -> absl::StatusOr<OpenFile> {
    CANOPY_ASSIGN_OR_RETURN(const std::shared_ptr<FileCopy> file, CopyHeader(path));
    files.push_back(file);
    return OpenFile{file->bytes(), file};
  };
  CANOPY_ASSIGN_OR_RETURN(WeightSource source, Open(folder, open_copy));
  return CheckpointCopy{std::move(source), std::move(files)};
}

int64_t CheckpointCopy::file_bytes() const {
  int64_t bytes = 0;
  for (const std::shared_ptr<FileCopy>& file : files) {
    bytes += static_cast<int64_t>(file->bytes().size());
  }
  return bytes;
}

absl::Status CheckpointCopy::ReadTensors(const std::function<absl::Status()>& check_wanted) const {
  for (const std::shared_ptr<FileCopy>& file : files) {
    CANOPY_RETURN_IF_ERROR(file->ReadTo(file->bytes().size(), check_wanted));
  }
  return absl::OkStatus();
}

}  // namespace canopy
