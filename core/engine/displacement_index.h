// Finds the waiting job that loses its place when the queue is full: an index by what clients hold.
//
// A new request displaces a job of lower priority, or else a job of its own priority from a client
// that holds more than its sender would. Among these the client that holds most loses its newest
// job. All operations are logarithmic in the number of clients and of jobs of a client, amortized.
// The order of the clients is updated only by Find, or when many clients have changed, because Find
// is never called while the queue is not full.
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
  // The unit in which the holding of a client is measured.
  enum class Measure { kRequests, kTokens };

  // The jobs of one client. Owned by the caller; its address must not change until Forget.
  class Client {
   public:
    int64_t held(Measure measure) const { return held_[static_cast<size_t>(measure)]; }

   private:
    friend class DisplacementIndex;
    using Job = std::pair<TimePoint, JobId>;
    // The entry of the client in the order for one priority.
    struct Listed {
      std::array<int64_t, 2> held{};  // by measure
      Job newest;
      bool operator==(const Listed& other) const {
        return held == other.held && newest == other.newest;
      }
    };
    std::array<int64_t, 2> held_{};             // by measure
    std::array<absl::btree_set<Job>, 2> jobs_;  // by priority; the jobs that may lose their places
    std::array<std::optional<Listed>, 2> listed_;  // by priority
  };

  // Adds to the holding of the client. The numbers may be negative.
  void ChangeHeld(Client* client, int64_t requests, int64_t tokens);
  // From now on the job may lose its place, until Remove.
  void Add(Client* client, Priority priority, TimePoint arrival, JobId id);
  void Remove(Client* client, Priority priority, TimePoint arrival, JobId id);
  // Removes the client, which must have no jobs here, so that it may be destroyed.
  void Forget(Client* client);

  // Returns the job that makes room for a request of `priority` whose client would hold `own_held`
  // including it; nullopt if no job has to.
  std::optional<JobId> Find(Priority priority, Measure measure, int64_t own_held);

 private:
  // An entry of a client that has jobs of one priority.
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
  absl::flat_hash_set<Client*> changed_;  // the clients that changed since the last UpdateAll
};

}  // namespace canopy

#endif  // CORE_ENGINE_DISPLACEMENT_INDEX_H_
