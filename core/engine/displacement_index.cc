#include "core/engine/displacement_index.h"

#include <cstddef>

namespace canopy {

DisplacementIndex::Entry DisplacementIndex::EntryOf(const Client& client, size_t priority,
                                                    size_t measure) const {
  return {client.held_[measure], *client.jobs_[priority].rbegin()};
}

void DisplacementIndex::Enlist(const Client& client, size_t priority) {
  if (!client.jobs_[priority].empty()) {
    for (size_t measure = 0; measure < 2; ++measure) {
      order_[priority][measure].insert(EntryOf(client, priority, measure));
    }
  }
}

void DisplacementIndex::Delist(const Client& client, size_t priority) {
  if (!client.jobs_[priority].empty()) {
    for (size_t measure = 0; measure < 2; ++measure) {
      order_[priority][measure].erase(EntryOf(client, priority, measure));
    }
  }
}

void DisplacementIndex::ChangeHeld(Client* client, int64_t requests, int64_t tokens) {
  for (size_t priority = 0; priority < 2; ++priority) {
    Delist(*client, priority);
  }
  client->held_[static_cast<size_t>(Measure::kRequests)] += requests;
  client->held_[static_cast<size_t>(Measure::kTokens)] += tokens;
  for (size_t priority = 0; priority < 2; ++priority) {
    Enlist(*client, priority);
  }
}

void DisplacementIndex::Add(Client* client, Priority priority, TimePoint arrival, JobId id) {
  Delist(*client, Index(priority));
  client->jobs_[Index(priority)].insert({arrival, id});
  Enlist(*client, Index(priority));
}

void DisplacementIndex::Remove(Client* client, Priority priority, TimePoint arrival, JobId id) {
  Delist(*client, Index(priority));
  client->jobs_[Index(priority)].erase({arrival, id});
  Enlist(*client, Index(priority));
}

std::optional<JobId> DisplacementIndex::Find(Priority priority, Measure measure,
                                             int64_t own_held) const {
  const auto& of_measure = [this, measure](Priority of) -> const absl::btree_set<Entry>& {
    return order_[Index(of)][static_cast<size_t>(measure)];
  };
  if (priority == Priority::kNormal && !of_measure(Priority::kLow).empty()) {
    return of_measure(Priority::kLow).rbegin()->newest.second;
  }
  const absl::btree_set<Entry>& equals = of_measure(priority);
  if (equals.empty() || equals.rbegin()->held <= own_held) {
    return std::nullopt;
  }
  return equals.rbegin()->newest.second;
}

}  // namespace canopy
