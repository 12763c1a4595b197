// The version of this server, which --version, GetModel and the metrics show.
#ifndef BASE_VERSION_H_
#define BASE_VERSION_H_

namespace canopy {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace canopy

#endif  // BASE_VERSION_H_
