// Options for loading weights that replace others, while those serve.
#ifndef CORE_ENGINE_REPLACEMENT_H_
#define CORE_ENGINE_REPLACEMENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/engine/types.h"

namespace canopy {

struct Replacement {
  std::shared_ptr<const ModelInfo> served;  // the model that serves; never null
  std::string expected_fingerprint;         // '' = any
  // Runs `work` on the device between the forwards of the model that serves, and returns its
  // status. `what` names the work in the log. This is Engine::RunOnDevice, so that only one thread
  // uses the device. Null = the calling thread runs the work.
  std::function<absl::Status(absl::string_view what, const std::function<absl::Status()>& work)>
      run_on_device;
  // Returns an error if the weights are not needed any more, which ends the loading. The loading
  // thread calls it between steps. Null = the weights are always needed.
  std::function<absl::Status()> check_wanted;
};

}  // namespace canopy

#endif  // CORE_ENGINE_REPLACEMENT_H_
