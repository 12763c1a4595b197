#include "core/runtime/open_model.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked_math.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "core/checkpoint/weight_check.h"
#include "core/ops/device_memory.h"

namespace canopy {
namespace {

constexpr absl::string_view kCpu = "cpu";
// More threads do not make hashing faster, because the disk limits it.
constexpr unsigned kMaxLoadingThreads = 8;

// Returns the most host memory that a CPU model takes while it is loaded. Files that are released
// tensor by tensor make room for the copies, so only one tensor is needed in addition to the larger
// of the two.
int64_t MostOnCpu(const WeightMemory& memory, int64_t element_bytes) {
  const int64_t loaded = SaturatingMultiply(memory.elements, element_bytes);
  if (!memory.is_released) {
    return SaturatingAdd(loaded, memory.host_bytes);
  }
  const int64_t largest =
      std::min(SaturatingMultiply(memory.largest_elements, element_bytes), memory.largest_bytes);
  return SaturatingAdd(std::max(loaded, memory.host_bytes), largest);
}

absl::Status CheckRoom(const TorchRunnerOptions& options, absl::string_view device,
                       int64_t element_bytes, const WeightMemory& memory) {
  const auto check = [&](int64_t needed, absl::string_view place, const std::string& where) {
    const absl::StatusOr<int64_t> available = options.available_bytes
                                                  ? options.available_bytes(place)
                                                  : AvailableBytes(c10::Device(std::string(place)));
    return available.ok() ? CheckMemory(needed, *available, where) : available.status();
  };
  if (device == kCpu) {
    return check(MostOnCpu(memory, element_bytes), kCpu, "host memory");
  }
  CANOPY_RETURN_IF_ERROR(check(SaturatingMultiply(memory.elements, element_bytes), device,
                               absl::StrCat("memory on ", device)));
  return check(memory.host_bytes, kCpu, "host memory");
}

// While other models serve, loading leaves most cores to them.
int LoadingThreads(const TorchRunnerOptions& options) {
  return options.replacement.has_value()
             ? 1
             : static_cast<int>(
                   std::clamp(std::thread::hardware_concurrency(), 1U, kMaxLoadingThreads));
}

// Logs once which contents of the folder have no effect.
void LogWhatIsIgnored(const TorchRunnerOptions& options, const HostModel& model) {
  if (!model.config.auto_map.empty()) {
    LogWarning("remote_code_ignored",
               {{"model", options.source.name}, {"auto_map", model.config.auto_map}});
  }
  if (!CheckLastTokenPooling(model.pooling).ok()) {
    LogWarning("folder_pooling_overridden",
               {{"model", options.source.name},
                {"pooling", model.pooling.mode},
                {"modules", absl::StrJoin(model.pooling.other_modules, ",")}});
  }
  std::vector<std::string> ignored = model.config.ignored_keys;
  for (const std::string& type : model.pooling.ignored_modules) {
    ignored.push_back(absl::StrCat("modules.json: ", type));
  }
  ignored.insert(ignored.end(), model.weights.ignored.begin(), model.weights.ignored.end());
  if (!ignored.empty()) {
    LogWarning("checkpoint_parts_ignored",
               {{"model", options.source.name}, {"parts", absl::StrJoin(ignored, ", ")}});
  }
}

}  // namespace

absl::Status CheckWanted(const TorchRunnerOptions& options) {
  if (options.check_wanted) {
    CANOPY_RETURN_IF_ERROR(options.check_wanted());
  }
  const std::optional<Replacement>& replacement = options.replacement;
  return replacement.has_value() && replacement->check_wanted ? replacement->check_wanted()
                                                              : absl::OkStatus();
}

absl::StatusOr<HostModel> OpenHostModel(const TorchRunnerOptions& options, absl::string_view device,
                                        int64_t element_bytes) {
  HostModelOptions host;
  host.source = options.source.source;
  host.config = options.model.config;
  if (options.model.reranker_yes_token >= 0) {
    host.reranker =
        RerankerTokens{options.model.reranker_yes_token, options.model.reranker_no_token};
  }
  host.force_last_token_pooling = options.model.force_last_token_pooling;
  host.reading.num_threads = LoadingThreads(options);
  host.reading.check_wanted = [&options] { return CheckWanted(options); };
  host.check_room = [&](const WeightMemory& memory) {
    return CheckRoom(options, device, element_bytes, memory);
  };
  absl::StatusOr<HostModel> model = ReadHostModel(host);
  if (model.ok()) {
    LogWhatIsIgnored(options, *model);
  }
  return model;
}

}  // namespace canopy
