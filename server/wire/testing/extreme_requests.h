// Bytes of requests at the edge of what is allowed, and far beyond it: what decoding must take
// little memory and time for.
#ifndef SERVER_WIRE_TESTING_EXTREME_REQUESTS_H_
#define SERVER_WIRE_TESTING_EXTREME_REQUESTS_H_

#include <memory>
#include <string>
#include <vector>

#include "core/engine/types.h"

namespace canopy::server {

struct SampleRequest {
  std::string name;
  std::string bytes;
};

// A thousand tokens, paths up to 2,048.
std::shared_ptr<const ModelInfo> ModelOfExtremes();

// Each as large as the default limits allow, and accepted under them.
std::vector<SampleRequest> LegalRequests();

// Each refused with INVALID_ARGUMENT; up to 32 MiB.
std::vector<SampleRequest> HostileRequests();

}  // namespace canopy::server

#endif  // SERVER_WIRE_TESTING_EXTREME_REQUESTS_H_
