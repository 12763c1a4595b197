#include "server/telemetry/raw_token_warnings.h"

#include "base/logging.h"

namespace canopy::server {

void RawTokenWarnings::Warn(absl::string_view client, const std::string& field) {
  metrics_.SuspiciousRawRequest();
  // The port is removed, because it changes when a client connects again.
  const std::string host(client.substr(0, client.rfind(':')));
  {
    MutexLock lock(&mutex_);
    if (warned_hosts_.size() >= kMaxHosts || !warned_hosts_.insert(host).second) {
      return;
    }
  }
  LogWarning(
      "suspicious_raw_tokens",
      {{"peer", client},
       {"field", field},
       {"hint",
        "every second int32 is zero, as in the bytes of an int64 array: convert the array to "
        "int32, or send the bytes as raw64; later requests of this host are only counted"}});
}

}  // namespace canopy::server
