// Reads the model that the runner's options name, if there is room for it on the device.
#ifndef CORE_RUNTIME_OPEN_MODEL_H_
#define CORE_RUNTIME_OPEN_MODEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/checkpoint/host_model.h"
#include "core/runtime/torch_runner.h"

namespace canopy {

// Reads, or makes, and checks the weights that `options` name: that they fit the memory, before any
// tensor is read; that they are those of the configuration; that they are finite. They are to go to
// `device` ("cpu" or "cuda:N") with elements of `element_bytes`. Errors as of LoadTorchRunner.
absl::StatusOr<HostModel> OpenHostModel(const TorchRunnerOptions& options, absl::string_view device,
                                        int64_t element_bytes);

// An error once nobody wants the model any more.
absl::Status CheckWanted(const TorchRunnerOptions& options);

}  // namespace canopy

#endif  // CORE_RUNTIME_OPEN_MODEL_H_
