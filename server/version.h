// The version of this server, as --version, GetModel and metrics show it.
#ifndef SERVER_VERSION_H_
#define SERVER_VERSION_H_

namespace canopy::server {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace canopy::server

#endif  // SERVER_VERSION_H_
