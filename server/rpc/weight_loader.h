// Loads the weights of a folder while others serve, and swaps them in. A load that fails leaves the
// old weights serving.
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
  std::string model;                 // '' = the first model
  std::string source;                // the name of a folder under --weights_root
  std::string expected_fingerprint;  // '' = any
};

// Returns OK if `source` names an entry of a folder itself; otherwise INVALID_ARGUMENT with the
// field.
absl::Status CheckSourceName(absl::string_view source);

// The device time of one load, during which requests waited.
struct DeviceTimeSlices {
  int64_t count = 0;
  double longest_ms = 0;
  std::string longest;  // the name of the longest time slice
};

// Used by one thread at a time.
class WeightLoader {
 public:
  struct Options {
    ModelOptions model;        // the options that the models were loaded with
    std::string weights_root;  // the folder that contains the folders that may be loaded
  };

  // `engine` must outlive the loader.
  WeightLoader(ModelLoader loader, Options options, Engine* engine);

  // Loads weights and makes them serve. Blocks until they serve or are refused. `check_wanted` is
  // as in Replacement.
  //
  // Returns
  //   INVALID_ARGUMENT     `source` is not a plain name
  //   NOT_FOUND            the model or the source does not exist
  //   DATA_LOSS            the checkpoint is bad
  //   FAILED_PRECONDITION  the fingerprint is not the expected one, or the model does not fit the
  //   one
  //                        that serves
  //   RESOURCE_EXHAUSTED   there is too little memory
  // Error texts name files relative to --weights_root.
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
