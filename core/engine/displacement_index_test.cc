#include "core/engine/displacement_index.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace canopy {
namespace {

using Measure = DisplacementIndex::Measure;
using TimePoint = DisplacementIndex::TimePoint;

struct Listed {
  int client = 0;
  Priority priority = Priority::kNormal;
  TimePoint arrival;
};

// Searches by the definition, one job after the other.
std::optional<JobId> FindByLinearSearch(
    const std::map<JobId, Listed>& jobs,
    const std::vector<std::unique_ptr<DisplacementIndex::Client>>& clients, Priority priority,
    Measure measure, int64_t own_held) {
  using Rank = std::tuple<bool, int64_t, TimePoint, JobId>;
  std::optional<Rank> found;
  for (const auto& [id, job] : jobs) {
    if (job.priority < priority) {
      continue;
    }
    const bool is_lower = job.priority > priority;
    const int64_t held = clients[job.client]->held(measure);
    if (is_lower || held > own_held) {
      const Rank rank(is_lower, held, job.arrival, id);
      found = found.has_value() ? std::max(*found, rank) : rank;
    }
  }
  return found.has_value() ? std::make_optional(std::get<JobId>(*found)) : std::nullopt;
}

// Replaces a client that holds nothing by another, perhaps at the same address.
void ReplaceIdleClient(const std::map<JobId, Listed>& jobs, DisplacementIndex& index,
                       std::unique_ptr<DisplacementIndex::Client>& client, int number) {
  const bool has_jobs = std::any_of(
      jobs.begin(), jobs.end(), [number](const auto& job) { return job.second.client == number; });
  if (!has_jobs) {
    index.Forget(client.get());
    client = std::make_unique<DisplacementIndex::Client>();
  }
}

TEST(DisplacementIndex, FindsWhatALinearSearchFinds) {
  int found = 0;
  for (uint32_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(seed);
    std::minstd_rand random(seed);
    const auto draw = [&random](int64_t below) { return static_cast<int64_t>(random() % below); };
    DisplacementIndex index;
    std::vector<std::unique_ptr<DisplacementIndex::Client>> clients;
    const int64_t num_clients = seed % 10 == 0 ? 200 : 1 + draw(6);
    for (int64_t i = 0; i < num_clients; ++i) {
      clients.push_back(std::make_unique<DisplacementIndex::Client>());
    }
    std::map<JobId, Listed> jobs;
    JobId next = 1;
    for (int step = 0; step < 300; ++step) {
      const int64_t choice = draw(3);
      if (choice == 0 || jobs.empty()) {
        Listed job;
        job.client = static_cast<int>(draw(num_clients));
        job.priority = draw(3) == 0 ? Priority::kLow : Priority::kNormal;
        // Jobs may arrive at the same time, and return with their old arrival.
        job.arrival = TimePoint(std::chrono::microseconds(draw(5)));
        index.Add(clients[job.client].get(), job.priority, job.arrival, next);
        jobs[next++] = job;
      } else if (choice == 1) {
        const auto gone = std::next(jobs.begin(), draw(static_cast<int64_t>(jobs.size())));
        const Listed& job = gone->second;
        index.Remove(clients[job.client].get(), job.priority, job.arrival, gone->first);
        jobs.erase(gone);
      } else {
        index.ChangeHeld(clients[draw(num_clients)].get(), draw(5) - 2, draw(50) - 20);
      }
      if (draw(4) != 0) {
        continue;  // so that several changes come before a search
      }
      if (draw(8) == 0) {
        const auto number = static_cast<int>(draw(num_clients));
        ReplaceIdleClient(jobs, index, clients[number], number);
      }
      for (const Priority priority : {Priority::kNormal, Priority::kLow}) {
        for (const Measure measure : {Measure::kRequests, Measure::kTokens}) {
          const int64_t own_held = draw(40) - 10;
          const auto expected = FindByLinearSearch(jobs, clients, priority, measure, own_held);
          ASSERT_EQ(index.Find(priority, measure, own_held), expected) << "step " << step;
          found += expected.has_value() ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(found, 10'000);
}

}  // namespace
}  // namespace canopy
