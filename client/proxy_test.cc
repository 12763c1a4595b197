#include "client/proxy.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

absl::StatusOr<absl::optional<ProxyRoute>> Find(
    const std::string& target, const Environment& environment,
    const absl::optional<std::string>& chosen = absl::nullopt) {
  return FindProxy(target, chosen, [&environment](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

// Returns the proxy of a target; empty = none.
std::string ProxyOf(const std::string& target, const Environment& environment) {
  const auto route = Find(target, environment);
  EXPECT_TRUE(route.ok()) << route.status();
  return route.ok() && route->has_value() ? (*route)->proxy : "";
}

bool GoesDirect(const std::string& target, const std::string& no_proxy) {
  const std::string proxy =
      ProxyOf(target, {{"https_proxy", "http://proxy:3128"}, {"no_proxy", no_proxy}});
  EXPECT_TRUE(proxy.empty() || proxy == "proxy:3128");
  return proxy.empty();
}

TEST(FindProxyTest, TheFirstProxyOfTheEnvironmentIsUsed) {
  EXPECT_EQ(ProxyOf("h:1", {}), "");
  EXPECT_EQ(ProxyOf("h:1", {{"http_proxy", ""}}), "");
  EXPECT_EQ(ProxyOf("h:1", {{"http_proxy", "http://c:3"}}), "c:3");
  EXPECT_EQ(ProxyOf("h:1", {{"http_proxy", "http://c:3"}, {"https_proxy", "b:2"}}), "b:2");
  EXPECT_EQ(ProxyOf("h:1", {{"grpc_proxy", "http://a"},
                            {"http_proxy", "http://c:3"},
                            {"https_proxy", "http://b:2"}}),
            "a:80");
}

TEST(FindProxyTest, ThisMachineIsReachedDirectly) {
  for (const char* target :
       {"127.0.0.1:1", "127.255.0.9:1", "localhost:1", "LocalHost:1", "localhost.:1",
        "a.localhost:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "0.0.0.0:1", "[::]:1",
        "dns:localhost:1", "dns:///127.0.0.1:1", "dns://8.8.8.8/localhost:1", "ipv4:127.0.0.1:1",
        "ipv6:[::1]:1", "unix:path", "unix:///path", "unix-abstract:x"}) {
    for (const char* variable : {"grpc_proxy", "https_proxy", "http_proxy"}) {
      EXPECT_EQ(ProxyOf(target, {{variable, "http://proxy:3128"}}), "") << target;
    }
  }
  for (const char* target : {"128.0.0.1:1", "[::2]:1", "localhost.com:1", "notlocalhost:1",
                             "127.example.com:1", "dns:///h:1", "ipv4:10.0.0.1:1"}) {
    EXPECT_EQ(ProxyOf(target, {{"http_proxy", "http://proxy:3128"}}), "proxy:3128") << target;
  }
}

TEST(FindProxyTest, NoProxyMatchesNamesAndSubdomains) {
  for (const char* no_proxy :
       {"example.com", ".example.com", "*.example.com", "EXAMPLE.com", "a,example.com",
        "a, example.com", "a example.com", "example.com.", "example.com:50051", "*", " * "}) {
    EXPECT_TRUE(GoesDirect("api.example.com:50051", no_proxy)) << no_proxy;
    EXPECT_TRUE(GoesDirect("dns:///API.example.com.:50051", no_proxy)) << no_proxy;
    EXPECT_TRUE(GoesDirect("example.com:50051", no_proxy)) << no_proxy;
  }
  for (const char* no_proxy : {"", ",", "ample.com", "com.example", "api.example.co", "example",
                               "example.com:50052", "10.0.0.0/8", "."}) {
    EXPECT_FALSE(GoesDirect("api.example.com:50051", no_proxy)) << no_proxy;
  }
  EXPECT_FALSE(GoesDirect("notexample.com:1", "example.com"));
  EXPECT_FALSE(GoesDirect("example.com:1", "api.example.com"));
}

TEST(FindProxyTest, NoProxyMatchesAddressesAndRanges) {
  for (const char* no_proxy : {"10.1.2.3", "10.0.0.0/8", "10.1.2.3/32", "10.1.2.2/31", "0.0.0.0/0",
                               "x,10.1.0.0/16", "10.1.2.3:50051", "::ffff:10.1.2.3"}) {
    EXPECT_TRUE(GoesDirect("10.1.2.3:50051", no_proxy)) << no_proxy;
    EXPECT_TRUE(GoesDirect("ipv4:10.1.2.3:50051", no_proxy)) << no_proxy;
  }
  for (const char* no_proxy :
       {"10.1.2.4", "11.0.0.0/8", "10.1.2.0/32", "10.1.2.3/33", "10.1.2.3/-1", "10.1.2.3/x",
        "1.2.3", "10.1.2.3:1", "10.", "fd00::/8"}) {
    EXPECT_FALSE(GoesDirect("10.1.2.3:50051", no_proxy)) << no_proxy;
  }
  for (const char* no_proxy : {"fd00::1", "fd00::/8", "[fd00::1]", "[fd00::1]:1", "FD00:0::1"}) {
    EXPECT_TRUE(GoesDirect("[fd00::1]:1", no_proxy)) << no_proxy;
  }
  EXPECT_FALSE(GoesDirect("[fd00::1]:1", "fe00::/8"));
  EXPECT_FALSE(GoesDirect("[fd00::1]:1", "0.0.0.0/0"));
}

TEST(FindProxyTest, EveryNoProxyVariableCounts) {
  for (const char* variable : {"no_grpc_proxy", "no_proxy", "NO_PROXY"}) {
    EXPECT_EQ(ProxyOf("h.example:1", {{"http_proxy", "p:1"}, {variable, "example"}}), "")
        << variable;
  }
  EXPECT_EQ(ProxyOf("h.example:1",
                    {{"http_proxy", "p:1"}, {"no_proxy", "other"}, {"NO_PROXY", "example"}}),
            "");
}

TEST(FindProxyTest, AListOfAddressesGoesDirect) {
  EXPECT_EQ(ProxyOf("ipv4:10.0.0.1:1,10.0.0.2:1", {{"http_proxy", "p:1"}}), "");
}

TEST(FindProxyTest, TheOptionOverridesTheEnvironment) {
  const Environment environment = {{"http_proxy", "http://env:1"}, {"no_proxy", "*"}};
  EXPECT_FALSE(Find("h:1", {{"http_proxy", "http://env:1"}}, "")->has_value());
  const auto route = *Find("127.0.0.1:1", environment, "http://mine:2");
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->proxy, "mine:2");
  EXPECT_EQ(ToString(*route), "through the proxy mine:2 (from ClientOptions::proxy)");
}

TEST(FindProxyTest, AChosenProxyIsNeverDroppedInSilence) {
  for (const char* target :
       {"ipv4:10.0.0.1:1,10.0.0.2:1", "ipv6:[fd00::1]:1,[fd00::2]:1", "xds:///name"}) {
    const absl::Status status = Find(target, {}, "http://mine:2").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << target;
    EXPECT_EQ(status.message(),
              "proxy: one tunnel leads to one address; give a target of one HOST:PORT");
    EXPECT_FALSE(Find(target, {}, "")->has_value()) << target;
  }
  for (const char* target : {"unix:path", "unix:///path", "unix-abstract:x"}) {
    EXPECT_FALSE(Find(target, {}, "http://mine:2")->has_value()) << target;
  }
}

TEST(FindProxyTest, APasswordWithASlashIsRefusedAndNotShown) {
  for (const char* url :
       {"http://user:sec/ret@proxy:3128", "user:sec/ret@proxy:3128", "http://user:123/ret@proxy",
        "http://proxy:sec", "http://proxy:0", "http://proxy:65536", "http://proxy:+80"}) {
    const absl::Status status = Find("h:1", {{"https_proxy", url}}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << url;
    EXPECT_EQ(status.message(),
              "https_proxy: the proxy's port must be a number from 1 to 65535; write / as %2F in a "
              "password");
  }
  const auto route = *Find("h:1", {{"https_proxy", "http://user:sec%2Fret@proxy:65535/path"}});
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->proxy, "proxy:65535");
  EXPECT_EQ(route->credentials, "user:sec/ret");
}

TEST(FindProxyTest, KeepsCredentialsOutOfTexts) {
  const auto route =
      *Find("h.example:50051", {{"https_proxy", "http://user:p%40ss@[fd00::2]:3128/"}});
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->proxy, "[fd00::2]:3128");
  EXPECT_EQ(route->server, "h.example:50051");
  EXPECT_EQ(route->credentials, "user:p@ss");
  EXPECT_EQ(ToString(*route), "through the proxy [fd00::2]:3128 (from https_proxy)");
}

TEST(FindProxyTest, ProxiesOfOtherKindsAreRefused) {
  for (const char* url : {"https://user:secret@proxy:443", "socks5://proxy:1080"}) {
    const absl::Status status = Find("h:1", {{"https_proxy", url}}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << url;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("https_proxy: gRPC supports HTTP proxies"));
    EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("secret")));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Find("h:1", {{"http_proxy", "http://:80"}}).status()));
  EXPECT_TRUE(Find("127.0.0.1:1", {{"https_proxy", "https://proxy:443"}}).ok());
}

}  // namespace
}  // namespace canopy::client
