// Reads the model that the runner's options name, if the device has room for it.
#ifndef CORE_RUNTIME_OPEN_MODEL_H_
#define CORE_RUNTIME_OPEN_MODEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/checkpoint/host_model.h"
#include "core/runtime/torch_runner.h"

namespace canopy {

// Reads or generates the weights that `options` name, and checks them: that they fit the memory,
// before any tensor is read; that they match the configuration; and that they are finite. They are
// meant for `device` ("cpu" or "cuda:N") with elements of `element_bytes`. Returns the errors of
// LoadTorchRunner.
absl::StatusOr<HostModel> OpenHostModel(const TorchRunnerOptions& options, absl::string_view device,
                                        int64_t element_bytes);

// Returns an error if the model is not needed any more.
absl::Status CheckWanted(const TorchRunnerOptions& options);

}  // namespace canopy

#endif  // CORE_RUNTIME_OPEN_MODEL_H_
