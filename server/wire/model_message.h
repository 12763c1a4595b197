// Describes a loaded model to clients.
#ifndef SERVER_WIRE_MODEL_MESSAGE_H_
#define SERVER_WIRE_MODEL_MESSAGE_H_

#include <cstdint>
#include <map>
#include <string>

#include "canopy/v1/types.pb.h"
#include "core/engine/types.h"

namespace canopy::server {

// The values of limits, by the names of their flags.
using LimitMap = std::map<std::string, int64_t>;

v1::Model ModelMessage(const ModelInfo& info, const LimitMap& limits);

}  // namespace canopy::server

#endif  // SERVER_WIRE_MODEL_MESSAGE_H_
