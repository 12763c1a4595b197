#include "server/rpc/weight_loader.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/logging.h"
#include "base/status_details.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "server/rpc/model_lookup.h"
#include "server/wire/grpc_status.h"
#include "server/wire/violations.h"

namespace canopy::server {
namespace {

constexpr size_t kMaxNameBytes = 255;

void RecordSlice(absl::string_view what, double slice_ms, DeviceTimeSlices* slices) {
  ++slices->count;
  if (slice_ms > slices->longest_ms) {
    slices->longest_ms = slice_ms;
    slices->longest = std::string(what);
  }
}

}  // namespace

absl::Status CheckSourceName(absl::string_view source) {
  constexpr absl::string_view kSeparators("/\\\0", 3);
  const bool is_name = !source.empty() && source.size() <= kMaxNameBytes && source != "." &&
                       source != ".." && source.find_first_of(kSeparators) == source.npos;
  Violations violations;
  if (!is_name) {
    violations.Add("source", absl::StrCat("\"", QuotedForError(source),
                                          "\" is not the name of a folder under --weights_root"));
  }
  return violations.ToStatus();
}

WeightLoader::WeightLoader(ModelLoader loader, Options options, Engine* engine)
    : loader_(std::move(loader)), options_(std::move(options)), engine_(*engine) {}

absl::StatusOr<std::shared_ptr<const ModelInfo>> WeightLoader::Load(
    const WeightRequest& request, const std::function<absl::Status()>& check_wanted) {
  CANOPY_RETURN_IF_ERROR(CheckSourceName(request.source));
  CANOPY_ASSIGN_OR_RETURN(std::shared_ptr<const ModelInfo> served,
                          FindLoadedModel(engine_, request.model));
  const Stopwatch loading;
  const std::string name = served->name;
  const std::string folder = BoundedForLog(request.source);
  LogInfo("weights_loading",
          {{"model", name}, {"folder", folder}, {"version", served->version + 1}});
  DeviceTimeSlices slices;
  absl::StatusOr<std::shared_ptr<const ModelInfo>> loaded =
      Replace(request, std::move(served), check_wanted, &slices);
  if (!loaded.ok()) {
    LogWarning("weights_refused",
               {{"model", name},
                {"folder", folder},
                {"code", absl::StatusCodeToString(loaded.status().code())},
                {"error", BoundedForLog(loaded.status().message(), kMaxStatusMessageBytes)},
                {"ms", loading.ElapsedMs()}});
    return ToContract(loaded.status());
  }
  LogInfo("weights_serving", {{"model", name},
                              {"folder", folder},
                              {"version", (*loaded)->version},
                              {"fingerprint", (*loaded)->fingerprint},
                              {"ms", loading.ElapsedMs()},
                              {"device_turns", slices.count},
                              {"longest_turn_ms", slices.longest_ms},
                              {"longest_turn", slices.longest}});
  return loaded;
}

absl::StatusOr<std::shared_ptr<const ModelInfo>> WeightLoader::Replace(
    const WeightRequest& request, std::shared_ptr<const ModelInfo> served,
    const std::function<absl::Status()>& check_wanted, DeviceTimeSlices* slices) {
  const std::string folder = absl::StrCat(options_.weights_root, "/", request.source);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return absl::NotFoundError(absl::StrCat("source: no folder \"", QuotedForError(request.source),
                                            "\" under --weights_root"));
  }
  const ModelSource source{served->name, folder};
  Replacement replacement;
  replacement.served = std::move(served);
  replacement.expected_fingerprint = request.expected_fingerprint;
  replacement.run_on_device = [this, slices](absl::string_view what,
                                             const std::function<absl::Status()>& work) {
    return engine_.RunOnDevice([&] {
      const Stopwatch running;
      absl::Status status = work();
      RecordSlice(what, running.ElapsedMs(), slices);
      return status;
    });
  };
  replacement.check_wanted = check_wanted;
  absl::StatusOr<std::unique_ptr<ModelRunner>> runner =
      loader_(source, options_.model, &replacement);
  // The folder exists, so any other missing or unreadable file is an error of the checkpoint.
  if (absl::IsNotFound(runner.status()) || absl::IsInvalidArgument(runner.status())) {
    return absl::DataLossError(runner.status().message());
  }
  CANOPY_RETURN_IF_ERROR(runner.status());
  CANOPY_RETURN_IF_ERROR(check_wanted());
  std::shared_ptr<const ModelInfo> info = (*runner)->info();
  CANOPY_RETURN_IF_ERROR(engine_.ReplaceModel(*std::move(runner), request.expected_fingerprint));
  return info;
}

// Removes the server's folder names from the error, because clients must not see them.
absl::Status WeightLoader::ToContract(const absl::Status& status) const {
  absl::Status error(status.code(),
                     absl::StrReplaceAll(status.message(), {{options_.weights_root + "/", ""}}));
  status.ForEachPayload([&error](absl::string_view type_url, const absl::Cord& payload) {
    error.SetPayload(type_url, payload);
  });
  return absl::IsResourceExhausted(error) ? WithErrorReason(error, ErrorReason::kNoMemoryForWeights)
                                          : error;
}

}  // namespace canopy::server
