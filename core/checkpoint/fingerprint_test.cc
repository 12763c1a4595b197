#include "core/checkpoint/fingerprint.h"

#include <map>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/checkpoint/testing/four_tensors.h"
#include "core/checkpoint/testing/test_files.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using Settings = std::map<std::string, std::string>;

WeightSource SourceOf(std::vector<TensorView> tensors) {
  return *WeightSource::Create(std::move(tensors), nullptr);
}

std::string FingerprintOf(std::vector<TensorView> tensors, const Settings& settings = {}) {
  return *Fingerprint(settings, SourceOf(std::move(tensors)));
}

// The expected values are hashlib.sha256 over the documented encoding in Python.
TEST(FingerprintTest, IsTheDocumentedHash) {
  EXPECT_EQ(FingerprintOf({}), "f262d5c7bfde18d3");
  EXPECT_EQ(FingerprintOf(FourTensors()), "cac307d9e1982378");
  EXPECT_EQ(FingerprintOf(FourTensors(), {{"num_layers", "2"}, {"head", "classifier"}}),
            "8ad434a4adde466e");
}

TEST(FingerprintTest, SeesEveryPartAndNoOrder) {
  const std::string base = FingerprintOf(FourTensors());
  std::vector<TensorView> reversed = FourTensors();
  std::swap(reversed[0], reversed[3]);
  std::swap(reversed[1], reversed[2]);
  EXPECT_EQ(FingerprintOf(reversed), base);

  std::set<std::string> all = {base};
  auto changed = FourTensors();
  changed[0].name = "c.weight";
  all.insert(FingerprintOf(changed));
  changed = FourTensors();
  changed[0].shape = {3, 2};
  all.insert(FingerprintOf(changed));
  changed = FourTensors();
  changed[2].dtype = DType::kFloat16;
  all.insert(FingerprintOf(changed));
  changed = FourTensors();
  changed[2].bytes = Bytes("\xc0\x3f\x20\x40\x40\xc1");
  all.insert(FingerprintOf(changed));
  changed = FourTensors();
  changed.pop_back();
  all.insert(FingerprintOf(changed));
  all.insert(FingerprintOf(FourTensors(), {{"rope.theta", "1"}}));
  all.insert(FingerprintOf(FourTensors(), {{"rope.theta", "2"}}));
  all.insert(FingerprintOf(FourTensors(), {{"rope.factor", "1"}}));
  EXPECT_EQ(all.size(), 9U);
}

// Returns a large tensor that needs a few steps, and many small tensors.
std::vector<TensorView> ManyTensors(const std::string& large) {
  std::vector<TensorView> tensors = FourTensors();
  tensors.push_back({"large", DType::kUInt8, {static_cast<int64_t>(large.size())}, Bytes(large)});
  for (int i = 0; i < 50; ++i) {
    tensors.push_back({"small" + std::to_string(i),
                       DType::kUInt8,
                       {i},
                       Bytes(large).subspan(static_cast<size_t>(i), static_cast<size_t>(i))});
  }
  return tensors;
}

TEST(FingerprintTest, IsTheSameOnAnyNumberOfThreads) {
  const std::string large(2 * kStepBytes + 1, 'x');
  const WeightSource source = SourceOf(ManyTensors(large));
  const std::string one = *Fingerprint({}, source);
  for (const int threads : {0, 2, 3, 8}) {
    EXPECT_EQ(*Fingerprint({}, source, {threads, nullptr}), one) << threads;
  }
}

TEST(FingerprintTest, IsTheSameIfThereAreNoMoreThreads) {
  const NoNewThreads limit;
  EXPECT_THROW(std::thread([] {}).join(), std::system_error);
  EXPECT_EQ(*Fingerprint({}, SourceOf(FourTensors()), {/*num_threads=*/8, nullptr}),
            "cac307d9e1982378");
}

TEST(FingerprintTest, StopsAtAnyStepWhenNobodyWantsIt) {
  const std::string large(2 * kStepBytes + 1, 'x');
  const WeightSource source = SourceOf(ManyTensors(large));
  int asked = 0;
  const WantedCheck count = [&asked] {
    ++asked;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Fingerprint({}, source, {1, count}).ok());
  EXPECT_EQ(asked, 3 + 4 + 50) << "steps of the large tensor, and the others";
  for (const int threads : {1, 4}) {
    for (const int stop : {1, 2, 3}) {
      asked = 0;
      const WantedCheck until = [&asked, stop] {
        return ++asked < stop ? absl::OkStatus() : absl::CancelledError("gone");
      };
      const auto stopped = Fingerprint({}, source, {threads, until});
      EXPECT_TRUE(absl::IsCancelled(stopped.status()) || (threads > 1 && asked < stop));
    }
  }
}

// The expected value is the SHA-256 of "abc" in FIPS 180.
TEST(FingerprintTest, TheShortHashIsTheStartOfSha256) {
  EXPECT_EQ(*ShortHash("abc"), "ba7816bf8f01cfea");
}

}  // namespace
}  // namespace canopy
