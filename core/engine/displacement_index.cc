#include "core/engine/displacement_index.h"

namespace canopy {
namespace {

// The number of changed clients that triggers an update, which bounds the work of one call.
constexpr size_t kMaxChanged = 64;

}  // namespace

void DisplacementIndex::MarkChanged(Client* client) {
  changed_.insert(client);
  if (changed_.size() > kMaxChanged) {
    UpdateAll();
  }
}

void DisplacementIndex::UpdateAll() {
  for (Client* client : changed_) {
    Update(client);
  }
  changed_.clear();
}

void DisplacementIndex::Update(Client* client) {
  for (size_t priority = 0; priority < 2; ++priority) {
    std::optional<Client::Listed> now;
    if (const auto& jobs = client->jobs_[priority]; !jobs.empty()) {
      now = Client::Listed{client->held_, *jobs.rbegin()};
    }
    std::optional<Client::Listed>& listed = client->listed_[priority];
    if (now == listed) {
      continue;
    }
    for (size_t measure = 0; measure < 2; ++measure) {
      if (listed.has_value()) {
        order_[priority][measure].erase({listed->held[measure], listed->newest});
      }
      if (now.has_value()) {
        order_[priority][measure].insert({now->held[measure], now->newest});
      }
    }
    listed = now;
  }
}

void DisplacementIndex::ChangeHeld(Client* client, int64_t requests, int64_t tokens) {
  client->held_[static_cast<size_t>(Measure::kRequests)] += requests;
  client->held_[static_cast<size_t>(Measure::kTokens)] += tokens;
  MarkChanged(client);
}

void DisplacementIndex::Add(Client* client, Priority priority, TimePoint arrival, JobId id) {
  client->jobs_[Index(priority)].insert({arrival, id});
  MarkChanged(client);
}

void DisplacementIndex::Remove(Client* client, Priority priority, TimePoint arrival, JobId id) {
  client->jobs_[Index(priority)].erase({arrival, id});
  MarkChanged(client);
}

void DisplacementIndex::Forget(Client* client) {
  Update(client);
  changed_.erase(client);
}

std::optional<JobId> DisplacementIndex::Find(Priority priority, Measure measure, int64_t own_held) {
  UpdateAll();
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
