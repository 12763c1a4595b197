#include "client/load/traffic/victims.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"

namespace canopy::client {
namespace {

constexpr int kCannotStart = 127;

// The child's part of a fork: nothing that takes a lock or allocates. Its errors stay visible, its
// report does not; it never outlives the thread that started it.
[[noreturn]] void Become(const char* program, char* const* arguments, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nowhere = open("/dev/null", O_RDWR);
  if (getppid() == parent && nowhere >= 0 && dup2(nowhere, STDIN_FILENO) >= 0 &&
      dup2(nowhere, STDOUT_FILENO) >= 0) {
    execv(program, arguments);
  }
  _exit(kCannotStart);
}

}  // namespace

Victims::Victims(VictimOptions options) : options_(std::move(options)), random_(options_.seed) {
  thread_ = std::thread([this] { Run(); });
}

Victims::~Victims() { Stop(); }

VictimCounts Victims::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  return counts_;
}

void Victims::Run() {
  std::vector<Victim> victims;
  victims.reserve(static_cast<size_t>(options_.count));
  for (int i = 0; i < options_.count; ++i) {
    victims.push_back(StartOne());
  }
  const auto dies_first = [](const Victim& a, const Victim& b) { return a.dies_at < b.dies_at; };
  while (!victims.empty()) {
    const auto next = std::min_element(victims.begin(), victims.end(), dies_first);
    MutexLock lock(&mutex_);
    if (mutex_.AwaitWithDeadline(Condition(&stopping_), next->dies_at)) {
      break;
    }
    EndOne(*next);
    *next = StartOne();
  }
  for (const Victim& victim : victims) {
    EndOne(victim);
  }
}

Victims::Victim Victims::StartOne() {
  std::vector<std::string> words = {options_.program};
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  words.push_back(absl::StrCat("--seed=", options_.seed + num_started_));
  words.push_back(num_started_ % 2 == 0 ? "--rpc=score" : "--rpc=stream");
  ++num_started_;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);

  const double share = static_cast<double>(random_() >> 11) * 0x1p-53;
  Victim victim;
  victim.dies_at = absl::Now() + share * options_.life;
  const pid_t parent = getpid();
  victim.process = fork();
  if (victim.process == 0) {
    Become(words[0].c_str(), arguments.data(), parent);
  }
  return victim;
}

void Victims::EndOne(const Victim& victim) {
  int status = 0;
  bool waited = false;
  if (victim.process > 0) {
    kill(victim.process, SIGKILL);
    pid_t ended = -1;
    do {
      ended = waitpid(victim.process, &status, 0);
    } while (ended < 0 && errno == EINTR);
    waited = ended == victim.process;
  }
  if (waited && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    ++counts_.killed;
  } else {
    ++counts_.ended;
    counts_.last_exit_code = waited && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
}

}  // namespace canopy::client
