#include "core/checkpoint/host_model.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "core/checkpoint/answer_settings.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/fingerprint.h"
#include "core/checkpoint/folder_snapshot.h"
#include "core/checkpoint/source_check.h"
#include "core/checkpoint/synthetic.h"
#include "core/checkpoint/weight_check.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {
namespace {

constexpr char kTokenizerFile[] = "tokenizer.json";
// Published tokenizer files have up to 35 MB.
constexpr size_t kMaxTokenizerBytes = size_t{512} << 20;

// The contents of a model's files other than its weights.
struct Description {
  ModelConfig config;
  std::string vocabulary_hash;
  DecisionTemperatures temperatures;
  std::optional<RerankerTokens> reranker;
  FolderPooling pooling;
};

absl::StatusOr<std::string> ReadVocabularyHash(FolderSnapshot* folder) {
  const auto file = folder->OpenFile(kTokenizerFile);
  if (absl::IsNotFound(file.status())) {
    return std::string();
  }
  CANOPY_RETURN_IF_ERROR(file.status());
  const size_t size = (*file)->bytes().size();
  if (size > kMaxTokenizerBytes) {
    return absl::DataLossError(absl::StrCat((*file)->path(), ": ", size, " bytes exceed ",
                                            kMaxTokenizerBytes, " for such a file"));
  }
  CANOPY_RETURN_IF_ERROR(folder->Read(file->get(), size));
  return ShortHash({reinterpret_cast<const char*>((*file)->bytes().data()), size});
}

absl::Status CheckRoom(const HostModelOptions& options, const WeightMemory& memory) {
  return options.check_room ? options.check_room(memory) : absl::OkStatus();
}

WeightMemory MemoryOf(const Checkpoint& checkpoint, const ModelConfig& config) {
  WeightMemory memory;
  memory.elements = LoadedBytes(checkpoint.source, config, /*element_bytes=*/1);
  for (const TensorView& tensor : checkpoint.source.tensors()) {
    const auto bytes = static_cast<int64_t>(tensor.bytes.size());
    memory.largest_elements = std::max(memory.largest_elements, bytes / DTypeBytes(tensor.dtype));
    memory.largest_bytes = std::max(memory.largest_bytes, bytes);
  }
  memory.host_bytes = checkpoint.file_bytes();
  memory.is_released = true;
  return memory;
}

absl::StatusOr<HostModel> Match(const WeightSource& source, Description description,
                                const WantedCheck& check_wanted) {
  CANOPY_ASSIGN_OR_RETURN(WeightMap weights,
                          MatchWeights(source, description.config, check_wanted));
  return HostModel{std::move(description.config),
                   std::move(weights),
                   std::move(description.vocabulary_hash),
                   description.temperatures,
                   description.reranker,
                   /*fingerprint=*/{},
                   std::move(description.pooling)};
}

// Reads how the folder pools, and refuses a folder whose vectors are not those of the last token.
absl::StatusOr<FolderPooling> ReadPooling(const HostModelOptions& options, FolderSnapshot* folder) {
  CANOPY_ASSIGN_OR_RETURN(FolderPooling pooling, ReadFolderPooling(folder));
  const absl::Status same = CheckLastTokenPooling(pooling);
  if (!same.ok() && !options.force_last_token_pooling) {
    return absl::Status(same.code(), absl::StrCat(options.source, ": ", same.message()));
  }
  return pooling;
}

absl::StatusOr<HostModel> ReadFiles(const HostModelOptions& options, FolderSnapshot* snapshot) {
  FolderSnapshot& folder = *snapshot;
  Description model;
  CANOPY_ASSIGN_OR_RETURN(model.config, options.config.empty()
                                            ? ReadModelConfig(&folder, kConfigFile)
                                            : LoadModelConfig(options.config));
  // Small files are read first, so that their errors are reported before the large files are read.
  CANOPY_ASSIGN_OR_RETURN(model.vocabulary_hash, ReadVocabularyHash(&folder));
  CANOPY_ASSIGN_OR_RETURN(model.temperatures, ReadTemperatures(&folder));
  CANOPY_ASSIGN_OR_RETURN(model.reranker, ReadRerankerTokens(&folder));
  CANOPY_ASSIGN_OR_RETURN(model.pooling, ReadPooling(options, &folder));
  CANOPY_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint(&folder, TensorUse::kRelease));
  CANOPY_RETURN_IF_ERROR(CheckRoom(options, MemoryOf(checkpoint, model.config)));
  CANOPY_RETURN_IF_ERROR(checkpoint.ReadTensors(folder));
  CANOPY_RETURN_IF_ERROR(folder.CheckUnchanged());
  return Match(checkpoint.source, std::move(model), options.reading.check_wanted);
}

absl::StatusOr<HostModel> ReadFolder(const HostModelOptions& options) {
  CANOPY_RETURN_IF_ERROR(CheckModelSource(options.source, /*needs_config=*/options.config.empty()));
  CANOPY_ASSIGN_OR_RETURN(FolderSnapshot folder,
                          FolderSnapshot::Open(options.source, options.reading));
  absl::StatusOr<HostModel> model = ReadFiles(options, &folder);
  if (model.ok()) {
    return model;
  }
  // A partly written file looks malformed, so a change during the read is reported instead.
  if (absl::IsDataLoss(model.status())) {
    CANOPY_RETURN_IF_ERROR(folder.CheckUnchanged());
  }
  return ExplainReadError(options.source, model.status());
}

absl::StatusOr<HostModel> MakeSynthetic(const HostModelOptions& options) {
  const std::string place(absl::StripPrefix(options.source, kSyntheticPrefix));
  Description model;
  CANOPY_ASSIGN_OR_RETURN(model.config,
                          LoadModelConfig(options.config.empty() ? place : options.config));
  WeightMemory memory;
  memory.elements = CountParameters(model.config);
  memory.host_bytes = memory.elements * DTypeBytes(DType::kFloat32);
  CANOPY_RETURN_IF_ERROR(CheckRoom(options, memory));
  CANOPY_ASSIGN_OR_RETURN(const WeightSource source, MakeSyntheticWeights(model.config));
  return Match(source, std::move(model), options.reading.check_wanted);
}

absl::Status CheckReranker(const HostModel& model) {
  if (!model.reranker.has_value()) {
    return absl::OkStatus();
  }
  if (HasLanguageModelHead(model)) {
    return CheckRerankerTokens(*model.reranker, model.config.vocab_size);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "reranker tokens need a language model; this is a ",
      model.weights.has_decision_head ? "typed-decision model" : model.config.architecture,
      model.weights.lacks_lm_head ? " without lm_head.weight" : ""));
}

}  // namespace

absl::StatusOr<HostModel> ReadHostModel(const HostModelOptions& options) {
  const bool is_synthetic = absl::StartsWith(options.source, kSyntheticPrefix);
  CANOPY_ASSIGN_OR_RETURN(HostModel model,
                          is_synthetic ? MakeSynthetic(options) : ReadFolder(options));
  if (options.reranker.has_value()) {
    model.reranker = options.reranker;
  }
  CANOPY_RETURN_IF_ERROR(CheckReranker(model));
  CANOPY_RETURN_IF_ERROR(CheckFinite(model.weights, options.reading.check_wanted));
  CANOPY_ASSIGN_OR_RETURN(
      model.fingerprint,
      Fingerprint(
          NonDefaultSettings({model.config, model.weights.has_decision_head,
                              model.weights.lacks_lm_head, model.temperatures, model.reranker}),
          model.weights.source, {options.reading.num_threads, options.reading.check_wanted}));
  return model;
}

}  // namespace canopy
