// Defaults that servers and clients must agree on.
#ifndef BASE_SHARED_DEFAULTS_H_
#define BASE_SHARED_DEFAULTS_H_

#include <cstdint>

namespace canopy {

// The HOST:PORT at which a server listens and a client connects.
inline constexpr char kDefaultAddress[] = "127.0.0.1:50051";
// The maximum size of a request message, in bytes.
inline constexpr int64_t kDefaultMaxRequestBytes = int64_t{64} << 20;

}  // namespace canopy

#endif  // BASE_SHARED_DEFAULTS_H_
