// Converts the enums of routing to and from their numbers on the wire.
#ifndef SERVER_WIRE_ROUTING_MESSAGE_H_
#define SERVER_WIRE_ROUTING_MESSAGE_H_

#include <iterator>
#include <optional>

#include "canopy/v1/types.pb.h"
#include "core/tree/route.h"

namespace canopy::server {

// Backends and packings have the same numbers on the wire. The numbers of policies are shifted by
// one, because POLICY_DEFAULT is 0.
constexpr v1::Backend ToWire(Backend backend) { return static_cast<v1::Backend>(backend); }
constexpr v1::Packing ToWire(Packing packing) { return static_cast<v1::Packing>(packing); }
constexpr v1::Policy ToWire(Policy policy) {
  return static_cast<v1::Policy>(static_cast<int>(policy) + 1);
}

// Precondition: the number is a value of the enum on the wire.
constexpr Backend BackendFromWire(int backend) { return static_cast<Backend>(backend); }
constexpr Packing PackingFromWire(int packing) { return static_cast<Packing>(packing); }
// Returns nullopt for POLICY_DEFAULT. Precondition: the number is a value of the enum on the wire.
constexpr std::optional<Policy> PolicyFromWire(int policy) {
  return policy == v1::POLICY_DEFAULT ? std::nullopt
                                      : std::make_optional(static_cast<Policy>(policy - 1));
}

// Checks the conversions for each value of the contract.
static_assert(ToWire(Backend::kAuto) == v1::BACKEND_AUTO);
static_assert(ToWire(Backend::kDense) == v1::BACKEND_DENSE);
static_assert(ToWire(Backend::kSegmented) == v1::BACKEND_SEGMENTED);
static_assert(ToWire(Backend::kPath) == v1::BACKEND_PATH);
static_assert(ToWire(Backend::kFused) == v1::BACKEND_FUSED);
static_assert(std::size(kBackends) == v1::Backend_ARRAYSIZE);
static_assert(ToWire(Packing::kAuto) == v1::PACKING_AUTO);
static_assert(ToWire(Packing::kPadded) == v1::PACKING_PADDED);
static_assert(std::size(kPackings) == v1::Packing_ARRAYSIZE);
static_assert(ToWire(Policy::kReference) == v1::POLICY_REFERENCE);
static_assert(ToWire(Policy::kMeasured) == v1::POLICY_MEASURED);
static_assert(std::size(kPolicies) + 1 == v1::Policy_ARRAYSIZE);

}  // namespace canopy::server

#endif  // SERVER_WIRE_ROUTING_MESSAGE_H_
