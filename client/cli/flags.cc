#include "client/cli/flags.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "canopy/v1/types.pb.h"
#include "client/client_options.h"
#include "client/enum_names.h"

namespace v1 = canopy::v1;
using canopy::client::ClientOptions;
using canopy::client::EnumChoices;

// NOLINTBEGIN(bugprone-dangling-handle): ABSL_FLAG copies a help text before the temporary ends.
ABSL_FLAG(std::string, server, ClientOptions().target,
          "gRPC target of the server: host:port, dns:///name:port, unix:path");
ABSL_FLAG(std::string, admin, "127.0.0.1:50052",
          "gRPC target of the server's --admin_listen: host:port, unix:path");
ABSL_FLAG(std::string, source, "", "folder under the server's --weights_root, without separators");
ABSL_FLAG(std::string, expected_fingerprint, "",
          "refuse weights with another fingerprint; empty = accept any");
ABSL_FLAG(std::string, config, "",
          "another config.json, as for the server's --config; empty = that of the folder");
ABSL_FLAG(int64_t, reranker_yes_token, -1,
          "the value of the server's --reranker_yes_token; -1 = as in the folder's reranker.json");
ABSL_FLAG(int64_t, reranker_no_token, -1, "the value of the server's --reranker_no_token");
ABSL_FLAG(absl::Duration, deadline, ClientOptions().deadline,
          "time for a call, including retries, with its unit: 500ms, 5s or 2m");
ABSL_FLAG(int64_t, max_request_bytes, ClientOptions().max_request_bytes,
          "largest request in bytes; a larger one is refused before it is sent");
ABSL_FLAG(std::string, format, "table", "format of the answer: table|json");
ABSL_FLAG(std::string, color, "auto", "auto|always|never; auto = when stdout is a terminal");
ABSL_FLAG(std::string, input, "-",
          "JSON lines file; - = stdin. The file can also follow the command");
ABSL_FLAG(std::string, svg, "", "write a picture of the forest to this file");
ABSL_FLAG(uint32_t, max_svg_segments, 0, "most runs of tokens to draw; 0 = the server's 2,000");
ABSL_FLAG(std::string, model, "", "model name; empty = the first (of `canopy model`: all)");
ABSL_FLAG(std::string, request_id, "", "returned with the answer and written to the server's log");
ABSL_FLAG(std::string, traceparent, "",
          "W3C trace context of the caller, 00-TRACE-PARENT-FLAGS; for the server's log");
ABSL_FLAG(uint64_t, min_model_version, 0, "refuse an older weight version; 0 = any");
ABSL_FLAG(std::string, vocabulary_hash, "", "refuse a model with another tokenizer; empty = any");
ABSL_FLAG(std::string, backend, "auto",
          absl::StrCat("attention: ", EnumChoices(*v1::Backend_descriptor())));
ABSL_FLAG(std::string, policy, "default",
          absl::StrCat("policy that chooses the backend for auto: ",
                       EnumChoices(*v1::Policy_descriptor())));
ABSL_FLAG(std::string, packing, "auto",
          absl::StrCat("layout of the tries: ", EnumChoices(*v1::Packing_descriptor())));
ABSL_FLAG(absl::optional<int64_t>, max_mask_bytes, absl::nullopt,
          "limit on the ancestor mask in bytes; 0 = no tree backend; absent = the server's limit");
ABSL_FLAG(std::string, priority, "normal", EnumChoices(*v1::Priority_descriptor()));
ABSL_FLAG(bool, scores, false,
          "score of each candidate; the default if no output is requested and the model has a "
          "scoring head");
ABSL_FLAG(bool, probabilities, false,
          "probability of each candidate in its question, and the answer");
ABSL_FLAG(bool, vectors, false, "hidden state at the end of each path");
ABSL_FLAG(std::string, vector_dtype, "float32", EnumChoices(*v1::DType_descriptor()));
ABSL_FLAG(bool, normalize, false, "vectors of length 1");
ABSL_FLAG(bool, token_logprobs, false, "log-probability of each token, and their sum");
ABSL_FLAG(bool, entropy, false, "entropy of the distribution before each token");
ABSL_FLAG(bool, vocab_range, false,
          "smallest and largest logit of the distribution before each token");
ABSL_FLAG(bool, values, false, "value of each token, from a critic model");
ABSL_FLAG(uint32_t, top_logprobs, 0, "most likely tokens at each position; 0 = none, at most 128");
ABSL_FLAG(bool, token_ranks, false,
          "rank of each token in the distribution before it; 1 = the most likely");
ABSL_FLAG(std::string, scope, "candidate",
          absl::StrCat("tokens that per-token outputs cover: ",
                       EnumChoices(*v1::Scope_descriptor())));
ABSL_FLAG(absl::optional<float>, temperature, absl::nullopt,
          "temperature of log-probabilities and entropy: from 1e-30 to 100; absent = 1");
// NOLINTEND(bugprone-dangling-handle)
