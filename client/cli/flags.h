// The flags of `canopy`, as Abseil flags, with the texts of --help. command_line.h sets them from
// arguments and defines the commands that take each flag. Every field of canopy.v1.Outputs has a
// flag of the same name and type; request_flags.cc finds the flag by the name of the field.
#ifndef CLIENT_CLI_FLAGS_H_
#define CLIENT_CLI_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/flags/declare.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

ABSL_DECLARE_FLAG(std::string, server);
ABSL_DECLARE_FLAG(std::string, admin);
ABSL_DECLARE_FLAG(std::string, source);
ABSL_DECLARE_FLAG(std::string, expected_fingerprint);
ABSL_DECLARE_FLAG(std::string, config);
ABSL_DECLARE_FLAG(int64_t, reranker_yes_token);
ABSL_DECLARE_FLAG(int64_t, reranker_no_token);
ABSL_DECLARE_FLAG(absl::Duration, deadline);
ABSL_DECLARE_FLAG(int64_t, max_request_bytes);
ABSL_DECLARE_FLAG(std::string, format);
ABSL_DECLARE_FLAG(std::string, color);
ABSL_DECLARE_FLAG(std::string, input);
ABSL_DECLARE_FLAG(std::string, svg);
ABSL_DECLARE_FLAG(uint32_t, max_svg_segments);
ABSL_DECLARE_FLAG(std::string, model);
ABSL_DECLARE_FLAG(std::string, request_id);
ABSL_DECLARE_FLAG(std::string, traceparent);
ABSL_DECLARE_FLAG(uint64_t, min_model_version);
ABSL_DECLARE_FLAG(std::string, vocabulary_hash);
ABSL_DECLARE_FLAG(std::string, backend);
ABSL_DECLARE_FLAG(std::string, policy);
ABSL_DECLARE_FLAG(std::string, packing);
ABSL_DECLARE_FLAG(absl::optional<int64_t>, max_mask_bytes);
ABSL_DECLARE_FLAG(std::string, priority);

#endif  // CLIENT_CLI_FLAGS_H_
