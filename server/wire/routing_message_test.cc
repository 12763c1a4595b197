#include "server/wire/routing_message.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

// Returns BACKEND_DENSE for "BACKEND" and "dense".
std::string WireName(absl::string_view prefix, absl::string_view name) {
  return absl::StrCat(prefix, "_", absl::AsciiStrToUpper(name));
}

TEST(RoutingMessageTest, NamesOnTheWireAreThoseOfFlagsAndLabels) {
  for (const auto& [backend, name] : kBackends) {
    EXPECT_EQ(v1::Backend_Name(ToWire(backend)), WireName("BACKEND", name));
    EXPECT_EQ(BackendFromWire(ToWire(backend)), backend);
  }
  for (const auto& [packing, name] : kPackings) {
    EXPECT_EQ(v1::Packing_Name(ToWire(packing)), WireName("PACKING", name));
    EXPECT_EQ(PackingFromWire(ToWire(packing)), packing);
  }
  for (const auto& [policy, name] : kPolicies) {
    EXPECT_EQ(v1::Policy_Name(ToWire(policy)), WireName("POLICY", name));
    EXPECT_EQ(PolicyFromWire(ToWire(policy)), policy);
  }
  EXPECT_EQ(PolicyFromWire(v1::POLICY_DEFAULT), std::nullopt);
}

}  // namespace
}  // namespace canopy::server
