#include "core/engine/fair_queue.h"

#include <algorithm>

namespace canopy {
namespace {

// The most idle clients with a clock ahead of the virtual time that are remembered. Without a
// limit, one connection per request would fill the memory while the queue is busy for long.
constexpr size_t kMaxIdleClients = 4096;
// The number of changed clients that triggers an update. TokensAhead triggers one too.
constexpr size_t kMaxChanged = 64;

}  // namespace

FairQueue::Place FairQueue::Add(const std::string& client_name, JobId job, End end) {
  std::unique_ptr<Client>& client = clients_[client_name];
  if (client == nullptr) {
    client = std::make_unique<Client>();
    client->name = client_name;
  }
  // A client's position in the order depends on its clock and sequence, so the client is removed
  // while they change.
  const bool front = end == End::kFront;
  if (!client->jobs.empty()) {
    order_.erase(client.get());
  }
  if (client->jobs.empty() || front) {
    client->clock = std::max(client->clock, virtual_time_);
    MarkChanged(client.get());
    client->sequence = front ? --first_sequence_ : next_sequence_++;
  }
  const Place place = client->jobs.insert(front ? client->jobs.begin() : client->jobs.end(), job);
  order_.insert(client.get());
  if (clients_.size() - order_.size() > kMaxIdleClients) {
    ForgetIdle();
  }
  return place;
}

void FairQueue::Remove(const std::string& client_name, Place place) {
  const auto client = clients_.find(client_name);
  client->second->jobs.erase(place);
  if (!client->second->jobs.empty()) {
    return;
  }
  order_.erase(client->second.get());
  if (client->second->clock <= virtual_time_) {
    Forget(client);
  }
}

void FairQueue::MoveToBack(const std::string& client_name, Place place) {
  std::list<JobId>& jobs = clients_.at(client_name)->jobs;
  jobs.splice(jobs.end(), jobs, place);
}

void FairQueue::Yield(const std::string& client_name, Place place) {
  MoveToBack(client_name, place);
  Client* client = clients_.at(client_name).get();
  order_.erase(client);
  client->sequence = next_sequence_++;
  order_.insert(client);
}

std::optional<JobId> FairQueue::Next() const {
  if (order_.empty()) {
    return std::nullopt;
  }
  return (*order_.begin())->jobs.front();
}

std::optional<JobId> FairQueue::Next(int64_t max_lead,
                                     absl::FunctionRef<bool(JobId)> accepts) const {
  if (order_.empty()) {
    return std::nullopt;
  }
  const int64_t latest = (*order_.begin())->clock + max_lead;
  for (const Client* client : order_) {
    if (client->clock > latest) {
      break;
    }
    if (accepts(client->jobs.front())) {
      return client->jobs.front();
    }
  }
  return std::nullopt;
}

int64_t FairQueue::ClockOf(const std::string& client_name) const {
  const auto client = clients_.find(client_name);
  if (client == clients_.end()) {
    return virtual_time_;
  }
  const Client& known = *client->second;
  return known.jobs.empty() ? std::max(known.clock, virtual_time_) : known.clock;
}

void FairQueue::ChangeWaiting(const std::string& client_name, int64_t change) {
  Client* client = clients_.at(client_name).get();
  client->waiting_tokens += change;
  MarkChanged(client);
}

int64_t FairQueue::TokensAhead(const std::string& client_name, int64_t tokens) {
  IndexAll();
  const auto own = clients_.find(client_name);
  const int64_t own_tokens = own == clients_.end() ? 0 : own->second->waiting_tokens;
  const int64_t clock_then = ClockOf(client_name) + own_tokens + tokens;
  return starts_.Below(clock_then) - ends_.Below(clock_then);
}

void FairQueue::MarkChanged(Client* client) {
  changed_.insert(client);
  if (changed_.size() > kMaxChanged) {
    IndexAll();
  }
}

void FairQueue::IndexAll() {
  for (Client* client : changed_) {
    Index(client);
  }
  changed_.clear();
}

void FairQueue::Index(Client* client) {
  if (client->start != client->end) {
    starts_.Erase(client->start, client);
    ends_.Erase(client->end, client);
  }
  client->start = client->clock;
  client->end = client->clock + client->waiting_tokens;
  if (client->start != client->end) {
    starts_.Insert(client->start, client);
    ends_.Insert(client->end, client);
  }
}

void FairQueue::Charge(const std::string& client_name, int64_t tokens) {
  const auto found = clients_.find(client_name);
  if (found == clients_.end()) {
    return;
  }
  Client* client = found->second.get();
  const bool waits = !client->jobs.empty();
  if (waits) {
    order_.erase(client);
  }
  client->clock += tokens;
  MarkChanged(client);
  if (tokens > 0) {
    client->sequence = next_sequence_++;
  }
  if (waits) {
    order_.insert(client);
  }
}

void FairQueue::Advance(int64_t clock) { virtual_time_ = std::max(virtual_time_, clock); }

void FairQueue::Forget(Clients::iterator client) {
  client->second->waiting_tokens = 0;
  Index(client->second.get());
  changed_.erase(client->second.get());
  clients_.erase(client);
}

void FairQueue::ForgetIdle() {
  for (auto client = clients_.begin(); client != clients_.end();) {
    const auto current = client++;
    if (current->second->jobs.empty()) {
      Forget(current);
    }
  }
}

}  // namespace canopy
