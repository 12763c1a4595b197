// Decoding a request, accepted or refused, takes at most 8 times its bytes + 1 MiB at any time,
// whatever its shape. Counts the bytes of operator new.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>

#include "gtest/gtest.h"
#include "server/wire/request_validator.h"
#include "server/wire/testing/extreme_requests.h"

namespace {

std::atomic<int64_t> g_live_bytes{0};
std::atomic<int64_t> g_peak_bytes{0};

void* Allocate(size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) {
    std::abort();
  }
  const int64_t live = g_live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t peak = g_peak_bytes;
  while (peak < live && !g_peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return memory;
}

void Release(void* memory) {
  if (memory != nullptr) {
    g_live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
    std::free(memory);
  }
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete[](void* memory) noexcept { Release(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { Release(memory); }
void operator delete[](void* memory, size_t /*size*/) noexcept { Release(memory); }

namespace canopy::server {
namespace {

constexpr int64_t kSlackBytes = 1 << 20;

// Decodes `bytes` and returns the code. Fails the test if decoding took too much memory.
absl::StatusCode Decode(const std::string& name, const std::string& bytes) {
  const std::shared_ptr<const ModelInfo> model = ModelOfExtremes();
  const int64_t before = g_live_bytes;
  g_peak_bytes = before;
  const auto request = PrepareRequest(bytes, RequestLimits(), [&model](absl::string_view) {
    return std::shared_ptr<const ModelInfo>(model);
  });
  const int64_t peak = g_peak_bytes - before;
  EXPECT_LE(peak, 8 * static_cast<int64_t>(bytes.size()) + kSlackBytes)
      << name << ": " << bytes.size() << " bytes, " << request.status();
  return request.status().code();
}

TEST(DecoderMemoryTest, LegalShapesStayWithinTheMemoryBound) {
  for (const SampleRequest& sample : LegalRequests()) {
    EXPECT_EQ(Decode(sample.name, sample.bytes), absl::StatusCode::kOk) << sample.name;
  }
}

TEST(DecoderMemoryTest, HostileShapesStayWithinTheMemoryBound) {
  for (const SampleRequest& sample : HostileRequests()) {
    EXPECT_EQ(Decode(sample.name, sample.bytes), absl::StatusCode::kInvalidArgument) << sample.name;
  }
}

}  // namespace
}  // namespace canopy::server
