// Loads the weights of a folder beside those that serve, and swaps them in. What fails leaves the
// old ones serving.
#ifndef SERVER_RPC_WEIGHT_LOADER_H_
#define SERVER_RPC_WEIGHT_LOADER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/engine.h"
#include "core/engine/types.h"
#include "server/rpc/model_loader.h"

namespace canopy::server {

// The fields of a LoadWeightsRequest.
struct WeightRequest {
  std::string model;                 // '' = the first
  std::string source;                // a folder's name under --weights_root
  std::string expected_fingerprint;  // '' = any
};

// OK where `source` names something in a folder itself. INVALID_ARGUMENT with the field otherwise.
absl::Status CheckSourceName(absl::string_view source);

// The pieces of device work of one load, which requests waited for.
struct DeviceTimeSlices {
  int64_t count = 0;
  double longest_ms = 0;
  std::string longest;  // what it was
};

// Used from one thread at a time.
class WeightLoader {
 public:
  struct Options {
    ModelOptions model;        // as the models were loaded with
    std::string weights_root;  // the folder of the folders that may be loaded
  };

  // The engine must outlive it.
  WeightLoader(ModelLoader loader, Options options, Engine* engine);

  // Blocks until the weights serve or are refused. `check_wanted` as in Replacement. Errors as the
  // contract gives them: INVALID_ARGUMENT for a source that is no plain name, NOT_FOUND for the
  // model or the source, DATA_LOSS for a bad checkpoint, FAILED_PRECONDITION for another
  // fingerprint than expected or a model that does not fit the one that serves, RESOURCE_EXHAUSTED
  // where memory is short. Texts name files from --weights_root on.
  absl::StatusOr<std::shared_ptr<const ModelInfo>> Load(
      const WeightRequest& request, const std::function<absl::Status()>& check_wanted);

 private:
  absl::StatusOr<std::shared_ptr<const ModelInfo>> Replace(
      const WeightRequest& request, std::shared_ptr<const ModelInfo> served,
      const std::function<absl::Status()>& check_wanted, DeviceTimeSlices* slices);
  absl::Status ToContract(const absl::Status& status) const;

  const ModelLoader loader_;
  const Options options_;
  Engine& engine_;
};

}  // namespace canopy::server

#endif  // SERVER_RPC_WEIGHT_LOADER_H_
