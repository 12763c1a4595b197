#include "client/load/traffic/killed_clients.h"

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

// Runs the program in the child of a fork, where nothing may take a lock or allocate. Its errors
// stay visible, its report does not. The child never outlives the thread that started it.
[[noreturn]] void ExecProgram(const char* program, char* const* arguments, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nowhere = open("/dev/null", O_RDWR);
  if (getppid() == parent && nowhere >= 0 && dup2(nowhere, STDIN_FILENO) >= 0 &&
      dup2(nowhere, STDOUT_FILENO) >= 0) {
    execv(program, arguments);
  }
  _exit(kCannotStart);
}

}  // namespace

KilledClients::KilledClients(KilledClientOptions options)
    : options_(std::move(options)), random_(options_.seed) {
  thread_ = std::thread([this] { Run(); });
}

KilledClients::~KilledClients() { Stop(); }

KilledClientCounts KilledClients::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  return counts_;
}

void KilledClients::Run() {
  std::vector<Process> processes;
  processes.reserve(static_cast<size_t>(options_.count));
  for (int i = 0; i < options_.count; ++i) {
    processes.push_back(StartOne());
  }
  const auto dies_first = [](const Process& a, const Process& b) { return a.dies_at < b.dies_at; };
  while (!processes.empty()) {
    const auto next = std::min_element(processes.begin(), processes.end(), dies_first);
    MutexLock lock(&mutex_);
    if (mutex_.AwaitWithDeadline(Condition(&stopping_), next->dies_at)) {
      break;
    }
    EndOne(*next);
    *next = StartOne();
  }
  for (const Process& process : processes) {
    EndOne(process);
  }
}

KilledClients::Process KilledClients::StartOne() {
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
  Process process;
  process.dies_at = absl::Now() + share * options_.life;
  const pid_t parent = getpid();
  process.pid = fork();
  if (process.pid == 0) {
    ExecProgram(words[0].c_str(), arguments.data(), parent);
  }
  return process;
}

void KilledClients::EndOne(const Process& process) {
  int status = 0;
  bool waited = false;
  if (process.pid > 0) {
    kill(process.pid, SIGKILL);
    pid_t ended = -1;
    do {
      ended = waitpid(process.pid, &status, 0);
    } while (ended < 0 && errno == EINTR);
    waited = ended == process.pid;
  }
  if (waited && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    ++counts_.killed;
  } else {
    ++counts_.ended;
    counts_.last_exit_code = waited && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
}

}  // namespace canopy::client
