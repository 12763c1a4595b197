#include "core/engine/host_model.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/checked_math.h"
#include "core/base/status_macros.h"
#include "core/engine/vocabulary_hash.h"
#include "core/model/checkpoint.h"
#include "core/model/synthetic.h"
#include "core/model/weight_check.h"
#include "core/model/weight_source.h"
#include "core/ops/device_memory.h"

namespace canopy {
namespace {

constexpr absl::string_view kSyntheticPrefix = "synthetic:";
constexpr absl::string_view kCpu = "cpu";

bool IsSynthetic(const TorchRunnerOptions& options) {
  return absl::StartsWith(options.source, kSyntheticPrefix);
}

// Whether `loaded` bytes fit the device, and `on_host` more the host while they are loaded.
absl::Status CheckRoom(const TorchRunnerOptions& options, absl::string_view device, int64_t loaded,
                       int64_t on_host) {
  const auto check = [&](int64_t needed, absl::string_view place, const std::string& where) {
    const absl::StatusOr<int64_t> available = options.available_bytes
                                                  ? options.available_bytes(place)
                                                  : AvailableBytes(c10::Device(std::string(place)));
    return available.ok() ? CheckMemory(needed, *available, where) : available.status();
  };
  if (device == kCpu) {
    return check(SaturatingAdd(loaded, on_host), kCpu, "host memory");
  }
  CANOPY_RETURN_IF_ERROR(check(loaded, device, absl::StrCat("memory on ", device)));
  return check(on_host, kCpu, "host memory");
}

// The weights in `folder`, or random ones: tensors are read or made once it is clear that they fit.
absl::StatusOr<WeightSource> OpenWeights(const TorchRunnerOptions& options,
                                         const std::string& folder, const ModelConfig& config,
                                         absl::string_view device, int64_t element_bytes) {
  if (IsSynthetic(options)) {
    const int64_t elements = CountParameters(config);
    CANOPY_RETURN_IF_ERROR(CheckRoom(options, device, elements * element_bytes,
                                     elements * DTypeBytes(DType::kFloat32)));
    return MakeSyntheticWeights(config);
  }
  if (!options.replacement.has_value()) {
    CANOPY_ASSIGN_OR_RETURN(WeightSource mapped, OpenCheckpoint(folder));
    CANOPY_RETURN_IF_ERROR(
        CheckRoom(options, device, LoadedBytes(mapped, config, element_bytes), /*on_host=*/0));
    return mapped;
  }
  CANOPY_ASSIGN_OR_RETURN(CheckpointCopy copy, OpenCheckpointCopy(folder));
  CANOPY_RETURN_IF_ERROR(CheckRoom(options, device, LoadedBytes(copy.source, config, element_bytes),
                                   copy.file_bytes()));
  CANOPY_RETURN_IF_ERROR(copy.ReadTensors(options.replacement->check_wanted));
  return std::move(copy.source);
}

}  // namespace

absl::Status CheckWanted(const TorchRunnerOptions& options) {
  const std::optional<Replacement>& replacement = options.replacement;
  return replacement.has_value() && replacement->check_wanted ? replacement->check_wanted()
                                                              : absl::OkStatus();
}

absl::StatusOr<HostModel> OpenHostModel(const TorchRunnerOptions& options, absl::string_view device,
                                        int64_t element_bytes) {
  const std::string place(absl::StripPrefix(options.source, kSyntheticPrefix));
  CANOPY_ASSIGN_OR_RETURN(const ModelConfig config,
                          LoadModelConfig(options.config.empty() ? place : options.config));
  CANOPY_ASSIGN_OR_RETURN(const WeightSource weights,
                          OpenWeights(options, place, config, device, element_bytes));
  CANOPY_ASSIGN_OR_RETURN(WeightMap matched, MatchWeights(weights, config));
  CANOPY_RETURN_IF_ERROR(CheckFinite(matched, [&options] { return CheckWanted(options); }));
  HostModel model{config, std::move(matched), {}, {}, {}};
  if (!IsSynthetic(options)) {
    CANOPY_ASSIGN_OR_RETURN(model.vocabulary_hash, VocabularyHash(place));
    CANOPY_ASSIGN_OR_RETURN(model.temperatures, LoadTemperatures(place));
    CANOPY_ASSIGN_OR_RETURN(model.reranker, LoadRerankerTokens(place));
  }
  if (options.reranker.has_value()) {
    model.reranker = options.reranker;
  }
  return model;
}

}  // namespace canopy
