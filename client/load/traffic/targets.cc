#include "client/load/traffic/targets.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_text.h"

namespace canopy::client {
absl::StatusOr<std::vector<Target>> ParseTargets(absl::string_view text) {
  std::vector<Target> targets;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t equals = part.find('=');
    Target target;
    target.address = std::string(part.substr(0, equals));
    const bool has_share = equals != absl::string_view::npos;
    if (target.address.empty() ||
        (has_share && (!absl::SimpleAtod(part.substr(equals + 1), &target.share) ||
                       !(target.share > 0) || std::isinf(target.share)))) {
      return absl::InvalidArgumentError(
          absl::StrCat("target '", part, "' is not ADDRESS or ADDRESS=SHARE with a share above 0"));
    }
    targets.push_back(std::move(target));
  }
  return targets;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsCredentials(const TlsFiles& files) {
  if (files.certificate.empty() != files.key.empty()) {
    return absl::InvalidArgumentError(
        "a client certificate needs its key, and a key its "
        "certificate");
  }
  grpc::SslCredentialsOptions options;
  const std::pair<const std::string*, std::string*> parts[] = {
      {&files.ca, &options.pem_root_certs},
      {&files.certificate, &options.pem_cert_chain},
      {&files.key, &options.pem_private_key},
  };
  for (const auto& [path, pem] : parts) {
    if (!path->empty()) {
      absl::StatusOr<std::string> text = ReadFileText(*path);
      if (!text.ok()) {
        return text.status();
      }
      *pem = *std::move(text);
    }
  }
  return grpc::SslCredentials(options);
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFileText(path);
  if (!text.ok()) {
    return text.status();
  }
  const std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n');
  const absl::string_view token = absl::StripAsciiWhitespace(lines[0]);
  if (token.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' holds no token"));
  }
  return std::string(token);
}

}  // namespace canopy::client
