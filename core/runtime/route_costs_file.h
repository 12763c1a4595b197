// Stores measured costs in a file, so that a restarted server does not measure again.
//
//   {"entries": [{"device": .., "dtype": .., "fingerprint": .., "build": ..,
//                 "costs": {"path": {"forward_ms": .., "group_ms": .., "token_ms": ..,
//                                    "pair_ms": ..}, ..}}, ..]}
#ifndef CORE_RUNTIME_ROUTE_COSTS_FILE_H_
#define CORE_RUNTIME_ROUTE_COSTS_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tree/route_costs.h"

namespace canopy {

// The conditions of a measurement. Costs with another key do not apply.
struct RouteCostsKey {
  std::string device;  // the name of the hardware, and other properties that determine its speed
  std::string dtype;
  std::string fingerprint;
  std::string build;
};

// Reads the costs with this key. Returns NOT_FOUND if the file or the entry does not exist,
// INVALID_ARGUMENT with the file's name if the file contains something else, and
// FAILED_PRECONDITION with its name if it is a pipe, a device or a folder, is too large or cannot
// be read. Never blocks.
absl::StatusOr<RouteCosts> ReadRouteCosts(const std::string& path, const RouteCostsKey& key);

// Adds the entry, or replaces the one with the same key. If there are too many entries, drops the
// oldest. Several processes may write at the same time. Returns INVALID_ARGUMENT with the file's
// name if it cannot be written or contains something else, and otherwise the errors of
// ReadRouteCosts.
absl::Status WriteRouteCosts(const std::string& path, const RouteCostsKey& key,
                             const RouteCosts& costs);

}  // namespace canopy

#endif  // CORE_RUNTIME_ROUTE_COSTS_FILE_H_
