// Requests at the limits of what is allowed, and far beyond them. Decoding must need little memory
// and time for each of them.
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

// A model with a vocabulary of a thousand tokens and paths of up to 2,048 tokens.
std::shared_ptr<const ModelInfo> ModelOfExtremes();

// Requests that are as large as the default limits allow, and accepted.
std::vector<SampleRequest> LegalRequests();

// Requests of up to 32 MiB that are refused with INVALID_ARGUMENT.
std::vector<SampleRequest> HostileRequests();

}  // namespace canopy::server

#endif  // SERVER_WIRE_TESTING_EXTREME_REQUESTS_H_
