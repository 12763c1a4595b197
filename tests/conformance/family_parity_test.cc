// Compares every model family, rotary scaling and storage type with what transformers computed from
// the same checkpoint. Run by parity_test.sh, which makes the checkpoints first.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/conformance/parity_checkpoint.h"

namespace canopy {
namespace {

// The names of the checkpoints, as the script lists them.
std::vector<std::string> CheckpointNames() {
  std::ifstream file(absl::StrCat(::testing::TempDir(), "/checkpoints/names.json"));
  const nlohmann::json names = nlohmann::json::parse(file, nullptr, false);
  return names.is_array() ? names.get<std::vector<std::string>>() : std::vector<std::string>();
}

class FamilyParityTest : public ::testing::TestWithParam<std::string> {
 protected:
  static bool Slides() { return absl::StrContains(GetParam(), "sliding"); }

  static const std::vector<ParityRoute>& Routes() {
    return Slides() ? ParityPathRoutes() : ParityRoutes();
  }
};

TEST_P(FamilyParityTest, Float32MatchesTransformersForEveryCandidateAndBackend) {
  const ParityCheckpoint checkpoint(GetParam(), "float32");
  for (const ParityRoute& route : Routes()) {
    ExpectFloat32Parity(checkpoint, route);
  }
}

TEST_P(FamilyParityTest, StorageTypeIsNoWorseThanThatOfTransformers) {
  if (absl::EndsWith(GetParam(), "_bf16")) {
    const ParityCheckpoint checkpoint(GetParam(), "bfloat16");
    for (const ParityRoute& route : Routes()) {
      ExpectHalfParity(checkpoint, route, &ReferenceCase::vectors_bf16);
    }
  } else if (absl::EndsWith(GetParam(), "_f16")) {
    const ParityCheckpoint checkpoint(GetParam(), "float16");
    for (const ParityRoute& route : Routes()) {
      ExpectHalfParity(checkpoint, route, &ReferenceCase::vectors_f16);
    }
  }
}

TEST_P(FamilyParityTest, SlidingWindowsLeaveThePathBackendAlone) {
  const ParityCheckpoint checkpoint(GetParam(), "float32");
  EXPECT_EQ(checkpoint.info().tree_supported, !Slides());
  EXPECT_EQ(checkpoint.info().fused_supported, !Slides());
  EXPECT_EQ(checkpoint.info().support_reason.empty(), !Slides());
  for (const auto& [name, item] : checkpoint.cases()) {
    const Route route = checkpoint.Plan(item, ParityPathRoutes()[1]).route();
    EXPECT_EQ(route.reason == Reason::kUnsupportedLayers, Slides()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, FamilyParityTest, ::testing::ValuesIn(CheckpointNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace canopy
