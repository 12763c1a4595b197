// A queue of the jobs of one priority that is fair between clients.
//
// Each client has a clock that advances by the tokens that the client is served. The client whose
// clock is furthest behind goes next, and its own jobs go in order of arrival. A client that
// returns starts at the clock of the client that is furthest behind, so that nobody saves up for a
// burst. While two clients wait and each of their jobs runs alone, the tokens that they are served
// differ by at most one job.
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
  // kFront undoes the removal of a job that was about to be served.
  enum class End { kFront, kBack };
  // The position of a job among those of its client; valid until the job is removed.
  using Place = std::list<JobId>::iterator;

  Place Add(const std::string& client, JobId job, End end);
  void Remove(const std::string& client, Place place);
  // Moves the job after the other jobs of its client. Places stay valid.
  void MoveToBack(const std::string& client, Place place);
  // Like MoveToBack, but also moves the client after the clients with the same clock.
  void Yield(const std::string& client, Place place);

  // Returns the job that goes next; nullopt if the queue is empty.
  std::optional<JobId> Next() const;
  // Considers the clients that are at most `max_lead` tokens ahead of the one furthest behind.
  // Returns the first job of the first client whose first job `accepts` takes.
  std::optional<JobId> Next(int64_t max_lead, absl::FunctionRef<bool(JobId)> accepts) const;

  // Returns the clock of the client that is furthest behind. Precondition: the queue is not empty.
  int64_t clock() const { return (*order_.begin())->clock; }
  // Returns the clock of `client`, or the clock that it would start with now.
  int64_t ClockOf(const std::string& client) const;
  // Adds `change`, which may be negative, to the tokens of the client's waiting jobs. Precondition:
  // the client has a job here. All tokens must be taken away before its last job is removed.
  void ChangeWaiting(const std::string& client, int64_t change);
  // Returns the tokens that are served before a further job of `client` with `tokens` tokens, as
  // far as they are known: those of the client's own waiting jobs, and those of other clients whose
  // clocks let them go first. Logarithmic in the number of clients.
  int64_t TokensAhead(const std::string& client, int64_t tokens);

  // Charges `tokens` to `client`; a negative value refunds them. A client without jobs here is
  // charged as long as its clock is remembered.
  void Charge(const std::string& client, int64_t tokens);
  // Raises the clock at which new clients start to `clock`, the value of clock() when the work that
  // starts now was chosen. A lower value has no effect.
  void Advance(int64_t clock);

  bool empty() const { return order_.empty(); }

 private:
  struct Client {
    std::string name;
    int64_t clock = 0;
    int64_t sequence = 0;  // orders clients with equal clocks
    std::list<JobId> jobs;
    int64_t waiting_tokens = 0;
    // The values that starts_ and ends_ contain for the client; equal = none.
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
  absl::btree_set<Client*, LessClock> order_;  // the clients with jobs
  // The start and the end of the service of a client's waiting jobs on its clock. Up to a clock of
  // t, client i is served max(t - start_i, 0) - max(t - end_i, 0).
  GapSums starts_;
  GapSums ends_;
  absl::flat_hash_set<Client*> changed_;  // the clients that changed since the last IndexAll
  // the clock of the client furthest behind when the last service was chosen
  int64_t virtual_time_ = 0;
  int64_t first_sequence_ = 0;
  int64_t next_sequence_ = 0;
};

}  // namespace canopy

#endif  // CORE_ENGINE_FAIR_QUEUE_H_
