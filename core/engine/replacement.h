// What is asked of weights that are loaded to take the place of others, while those serve.
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
  std::shared_ptr<const ModelInfo> served;  // what serves; never null
  std::string expected_fingerprint;         // '' = any
  // Runs a piece of device work, named for the log, between the forwards of those that serve, and
  // returns what it does; null = it may run where it is. Engine::RunOnDevice, so that one thread
  // uses the device.
  std::function<absl::Status(absl::string_view what, const std::function<absl::Status()>& work)>
      run_on_device;
  // An error once nobody wants the weights any more, which ends the loading. Asked between steps,
  // from the loading thread; null = always wanted.
  std::function<absl::Status()> check_wanted;
};

}  // namespace canopy

#endif  // CORE_ENGINE_REPLACEMENT_H_
