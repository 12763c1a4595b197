// Which waiting job loses its place when the queue is full: an index by what clients hold.
//
// A request gets in at the cost of a job of lower priority, else of a job of its own priority from
// a client that holds more than the sender would. Among those the client that holds most loses its
// newest job. All operations are logarithmic in clients and in jobs of a client, amortized: the
// clients' order is brought up to date when it is asked for, or when many have changed, since a
// queue that is not full never asks.
#ifndef CORE_ENGINE_DISPLACEMENT_INDEX_H_
#define CORE_ENGINE_DISPLACEMENT_INDEX_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "core/engine/types.h"

namespace canopy {

// Thread-compatible.
class DisplacementIndex {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // What a client's holding is measured in.
  enum class Measure { kRequests, kTokens };

  // What one client holds. Owned by the caller, at one address until Forget.
  class Client {
   public:
    int64_t held(Measure measure) const { return held_[static_cast<size_t>(measure)]; }

   private:
    friend class DisplacementIndex;
    using Job = std::pair<TimePoint, JobId>;
    // What the order has of the jobs of one priority.
    struct Listed {
      std::array<int64_t, 2> held{};  // by measure
      Job newest;
      bool operator==(const Listed& other) const {
        return held == other.held && newest == other.newest;
      }
    };
    std::array<int64_t, 2> held_{};                // by measure
    std::array<absl::btree_set<Job>, 2> jobs_;     // by priority; those that may lose their places
    std::array<std::optional<Listed>, 2> listed_;  // by priority
  };

  // The client holds so much more in the queue, or less where the numbers are negative.
  void ChangeHeld(Client* client, int64_t requests, int64_t tokens);
  // From now on the job may lose its place, until Remove.
  void Add(Client* client, Priority priority, TimePoint arrival, JobId id);
  void Remove(Client* client, Priority priority, TimePoint arrival, JobId id);
  // The client, which has no jobs here, may be destroyed.
  void Forget(Client* client);

  // The job that makes room for a request of `priority` whose client would hold `own_held` with it;
  // nothing where none has to.
  std::optional<JobId> Find(Priority priority, Measure measure, int64_t own_held);

 private:
  // A client with jobs of one priority.
  struct Entry {
    int64_t held = 0;
    std::pair<TimePoint, JobId> newest;
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.held != b.held ? a.held < b.held : a.newest < b.newest;
    }
  };

  static size_t Index(Priority priority) { return priority == Priority::kLow ? 1 : 0; }
  void MarkChanged(Client* client);
  void Update(Client* client);
  void UpdateAll();

  std::array<std::array<absl::btree_set<Entry>, 2>, 2> order_;  // by priority, then measure
  absl::flat_hash_set<Client*> changed_;                        // since they were put in order
};

}  // namespace canopy

#endif  // CORE_ENGINE_DISPLACEMENT_INDEX_H_
