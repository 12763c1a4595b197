// Which fields of the contract hold which output, read from its descriptors: an output that the
// contract has is checked, printed and compared without a line of its own in the client. Only what
// does not follow from the names is listed, in output_fields.cc.
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

// The names of all fields of Outputs, which are the flags of the command line too.
std::vector<absl::string_view> OutputsFieldNames();

// The fields of Outputs that ask for an output, in their order. The others are options.
const std::vector<const Field*>& OutputFields();

// Returns true if `outputs` asks for the output of this field of Outputs.
bool Asks(const v1::Outputs& outputs, const Field& output);

// The token at which a per-token list begins.
enum class ListStart {
  kFirstScored,  // at the first token in scope that has a distribution before it
  kScope,        // at the first token in scope
};

// A field of CandidateResult that holds an output, or a part of one.
struct ResultField {
  const Field* field;   // of CandidateResult
  const Field* output;  // of Outputs
  bool is_per_token;    // the output has an entry for each token
  ListStart start;      // of a list
};

// The fields of CandidateResult that hold an output, in their order.
const std::vector<ResultField>& ResultFields();

// Those of them that are per-token lists: of floats, of integers that count from 1, or of messages.
const std::vector<ResultField>& TokenLists();

// Returns true if `result` has the field, or an entry in the list.
bool Has(const v1::CandidateResult& result, const Field& field);

// Returns the number of entries of a list of CandidateResult.
uint64_t SizeOf(const v1::CandidateResult& result, const Field& list);

// Returns the numbers of a list of floats or of integers. They live as long as `result`.
absl::Span<const float> FloatsOf(const v1::CandidateResult& result, const Field& list);
absl::Span<const uint32_t> IntegersOf(const v1::CandidateResult& result, const Field& list);

bool IsFloat(const Field& field);
bool IsInteger(const Field& field);

// Returns what tables call one entry of a list: `logprob` of token_logprobs, `min logit` of
// min_logit.
std::string EntryTitle(const Field& list);

}  // namespace canopy::client

#endif  // CLIENT_OUTPUT_FIELDS_H_
