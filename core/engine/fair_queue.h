// Jobs of one priority in an order that is fair between clients.
//
// Each client has a clock that advances by the tokens it is served; the client whose clock is
// furthest behind goes next, and its own jobs go in the order in which they came. A client that
// was away starts where the furthest behind stands, so nobody saves up for a burst. While two
// clients wait whose every job runs alone, what they are served differs by at most one job.
#ifndef CORE_ENGINE_FAIR_QUEUE_H_
#define CORE_ENGINE_FAIR_QUEUE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "core/engine/gap_sums.h"
#include "core/engine/types.h"

namespace canopy {

// Thread-compatible.
class FairQueue {
 public:
  // kFront undoes that a job was removed to be served.
  enum class End { kFront, kBack };
  // Where a job stands among those of its client; valid until it is removed.
  using Place = std::list<JobId>::iterator;

  Place Add(const std::string& client, JobId job, End end);
  void Remove(const std::string& client, Place place);
  // Behind its client's other jobs; places stay valid.
  void MoveToBack(const std::string& client, Place place);
  // Likewise, and its client behind those whose clocks agree with its own.
  void Yield(const std::string& client, Place place);

  // The job to go next; nothing when empty.
  std::optional<JobId> Next() const;
  // Of the clients at most `max_lead` tokens ahead of the furthest behind, the first whose first
  // job `accepts` takes.
  std::optional<JobId> Next(int64_t max_lead, absl::FunctionRef<bool(JobId)> accepts) const;

  // Where the furthest behind stands. Call while it is not empty.
  int64_t clock() const { return (*order_.begin())->clock; }
  // Where `client` stands, or would if a job of it came now.
  int64_t ClockOf(const std::string& client) const;
  // The tokens of the client's jobs that wait here; a negative change takes some away. Call while
  // it has a job here. All must be taken away before its last job is removed.
  void ChangeWaiting(const std::string& client, int64_t change);
  // The tokens that are served before a further job of `client`, which has `tokens`, as far as it
  // is known: all that wait of the client itself, and of others those that their clocks let go
  // first. Logarithmic in clients.
  int64_t TokensAhead(const std::string& client, int64_t tokens);

  // Charges `tokens` to `client`; a negative value refunds them. A client without jobs here is
  // charged as long as its clock is remembered.
  void Charge(const std::string& client, int64_t tokens);
  // A service has begun that was chosen when clock() was `clock`: who comes now starts there.
  void Advance(int64_t clock);

  bool empty() const { return order_.empty(); }

 private:
  struct Client {
    std::string name;
    int64_t clock = 0;
    int64_t sequence = 0;  // among clients whose clocks agree, who came first
    std::list<JobId> jobs;
    int64_t waiting_tokens = 0;
    // What starts_ and ends_ have of it; equal = nothing.
    int64_t start = 0;
    int64_t end = 0;
  };
  struct LessClock {
    bool operator()(const Client* a, const Client* b) const {
      return a->clock != b->clock ? a->clock < b->clock : a->sequence < b->sequence;
    }
  };

  using Clients = absl::flat_hash_map<std::string, std::unique_ptr<Client>>;

  void MarkChanged(Client* client);
  void IndexAll();
  void Index(Client* client);
  void Forget(Clients::iterator client);
  void ForgetIdle();

  Clients clients_;
  absl::btree_set<Client*, LessClock> order_;  // those with jobs
  // Where the service of what a client has waiting starts on its clock, and where it ends: up to a
  // clock of t, client i is served max(t - start_i, 0) - max(t - end_i, 0).
  GapSums starts_;
  GapSums ends_;
  absl::flat_hash_set<Client*> changed_;  // since they were indexed
  int64_t virtual_time_ = 0;  // where the furthest behind stood when the last service was chosen
  int64_t first_sequence_ = 0;
  int64_t next_sequence_ = 0;
};

}  // namespace canopy

#endif  // CORE_ENGINE_FAIR_QUEUE_H_
