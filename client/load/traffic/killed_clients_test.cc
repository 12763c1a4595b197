#include "client/load/traffic/killed_clients.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace canopy::client {
namespace {

// Writes a shell script that replaces canopy_load.
std::string Program(const std::string& name, const std::string& body) {
  std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << "#!/bin/sh\n" << body;
  EXPECT_EQ(std::system(("chmod +x " + path).c_str()), 0);
  return path;
}

int CountLines(const std::string& path) {
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line);) {
    ++lines;
  }
  return lines;
}

TEST(KilledClientsTest, ClientsAreKilledAndReplacedUntilStop) {
  const std::string log = ::testing::TempDir() + "/lived";
  // The program lives until it is killed, because nobody writes to the pipe.
  const std::string fifo = ::testing::TempDir() + "/never";
  ASSERT_EQ(std::system(("mkfifo " + fifo).c_str()), 0);
  KilledClientOptions options;
  options.program = Program("lives", "echo $* >> " + log + "; exec cat " + fifo + "\n");
  options.arguments = {"--shapes=tiny"};
  options.count = 3;
  options.life = absl::Milliseconds(200);
  KilledClients clients(options);
  while (CountLines(log) < 12) {
    std::this_thread::yield();
  }
  const KilledClientCounts counts = clients.Stop();
  EXPECT_EQ(counts.ended, 0);
  EXPECT_GE(counts.killed, 12);
  EXPECT_EQ(clients.Stop().killed, counts.killed);
  std::ifstream lines(log);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line.find("--shapes=tiny --seed="), 0) << line;
  EXPECT_NE(line.find(" --rpc=s"), std::string::npos) << line;
}

// Runs client processes until one has ended by itself. Each attempt waits longer than the previous
// one, because on a busy machine all of them may be killed before they end.
KilledClientCounts CountsOnceOneHasEnded(const KilledClientOptions& options) {
  KilledClientCounts counts;
  for (int programs = 1; counts.ended == 0; ++programs) {
    KilledClients clients(options);
    for (int i = 0; i < programs; ++i) {
      EXPECT_EQ(std::system("true"), 0);
    }
    counts = clients.Stop();
  }
  return counts;
}

TEST(KilledClientsTest, ClientsThatEndByThemselvesAreCounted) {
  KilledClientOptions options;
  options.program = Program("ends", "exit 5\n");
  options.count = 1;
  options.life = absl::Seconds(2);
  EXPECT_EQ(CountsOnceOneHasEnded(options).last_exit_code, 5);
  options.program = "/nonexistent/program";
  EXPECT_EQ(CountsOnceOneHasEnded(options).last_exit_code, 127);
}

}  // namespace
}  // namespace canopy::client
