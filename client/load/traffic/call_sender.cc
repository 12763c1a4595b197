#include "client/load/traffic/call_sender.h"

#include "absl/strings/str_cat.h"

namespace canopy::client {

std::string LoadRequestId(uint64_t id) { return absl::StrCat("load-", id); }

grpc::ByteBuffer RequestBytes(const LoadCall& call) {
  const std::string& bytes = call.request->bytes;
  const grpc::Slice slices[] = {grpc::Slice(bytes.data(), bytes.size(), grpc::Slice::STATIC_SLICE),
                                grpc::Slice(RequestIdField(call.request_id))};
  return grpc::ByteBuffer(slices, 2);
}

std::unique_ptr<grpc::ClientContext> NewContext(const SenderOptions& options) {
  auto context = std::make_unique<grpc::ClientContext>();
  if (!options.token.empty()) {
    context->AddMetadata("authorization", absl::StrCat("Bearer ", options.token));
  }
  return context;
}

}  // namespace canopy::client
