// Measured costs on disk, so that a server that starts again need not measure again.
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

// What costs were measured with. Those of another key say nothing.
struct RouteCostsKey {
  std::string device;  // the hardware's name, with what else decides its speed
  std::string dtype;
  std::string fingerprint;
  std::string build;
};

// NOT_FOUND when there is no such file or no entry in it of this key; INVALID_ARGUMENT, naming the
// file, when it holds something else; FAILED_PRECONDITION, naming it too, when it is a pipe, a
// device or a folder, is too large or cannot be read. Does not wait for anything.
absl::StatusOr<RouteCosts> ReadRouteCosts(const std::string& path, const RouteCostsKey& key);

// Adds the entry or replaces the one of the same key; of very many, the oldest is dropped. Several
// processes may do so at once. INVALID_ARGUMENT, naming the file, when it cannot be written or
// holds something else; otherwise errors as of ReadRouteCosts.
absl::Status WriteRouteCosts(const std::string& path, const RouteCostsKey& key,
                             const RouteCosts& costs);

}  // namespace canopy

#endif  // CORE_RUNTIME_ROUTE_COSTS_FILE_H_
