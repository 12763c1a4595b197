// The fields of the contract that contain outputs, read from its descriptors, so that the client
// checks, prints and compares every output of the contract without code of its own. Only the
// exceptions from the naming rules are listed, in output_fields.cc.
#ifndef CLIENT_OUTPUT_FIELDS_H_
#define CLIENT_OUTPUT_FIELDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "canopy/v1/types.pb.h"
#include "google/protobuf/descriptor.h"

namespace canopy::client {

using Field = google::protobuf::FieldDescriptor;

// Returns the names of all fields of Outputs, which are also names of command-line flags.
std::vector<absl::string_view> OutputsFieldNames();

// Returns the fields of Outputs that request an output, in order. The other fields are options.
const std::vector<const Field*>& OutputFields();

// Returns whether `outputs` requests the output of this field of Outputs.
bool Asks(const v1::Outputs& outputs, const Field& output);

// The token at which a per-token list begins.
enum class ListStart {
  kFirstScored,  // at the first token in scope that has a distribution
  kScope,        // at the first token in scope
};

// A field of CandidateResult that contains an output, or a part of one.
struct ResultField {
  const Field* field;   // of CandidateResult
  const Field* output;  // of Outputs
  bool is_per_token;    // the output has one entry per token
  ListStart start;      // meaningful for lists
};

// Returns the fields of CandidateResult that contain an output, in order.
const std::vector<ResultField>& ResultFields();

// Returns those of ResultFields that are per-token lists: of floats, of integers that count from 1,
// or of messages.
const std::vector<ResultField>& TokenLists();

// Returns whether `result` has the field, or at least one entry in the list.
bool Has(const v1::CandidateResult& result, const Field& field);

// Returns the number of entries of a list of CandidateResult.
uint64_t SizeOf(const v1::CandidateResult& result, const Field& list);

// Returns the numbers of a list of floats or of integers. They live as long as `result`.
absl::Span<const float> FloatsOf(const v1::CandidateResult& result, const Field& list);
absl::Span<const uint32_t> IntegersOf(const v1::CandidateResult& result, const Field& list);

bool IsFloat(const Field& field);
bool IsInteger(const Field& field);

// Returns the title of one entry of a list in tables: `logprob` of token_logprobs, `min logit` of
// min_logit.
std::string EntryTitle(const Field& list);

}  // namespace canopy::client

#endif  // CLIENT_OUTPUT_FIELDS_H_
