#include "client/load/report/figures.h"

#include "absl/strings/str_cat.h"

namespace canopy::client {
namespace {

void AddQuantiles(absl::string_view prefix, const LatencyHistogram& histogram,
                  std::vector<Figure>* figures) {
  figures->push_back(
      {absl::StrCat(prefix, "_mean_ms"), absl::ToDoubleMilliseconds(histogram.mean())});
  for (const NamedQuantile& named : kQuantiles) {
    figures->push_back({absl::StrCat(prefix, "_", named.name, "_ms"),
                        absl::ToDoubleMilliseconds(histogram.Quantile(named.quantile))});
  }
}

}  // namespace

std::vector<Figure> FiguresOf(const LoadResult& result) {
  const Tally& total = result.total;
  const uint64_t answered = total.num(CallOutcome::kAnswered);
  std::vector<Figure> figures = {
      {"elapsed_s", absl::ToDoubleSeconds(result.elapsed)},
      {"requests_per_s", result.PerSecond(answered)},
      {"goodput_per_s", result.PerSecond(total.within_goal)},
      {"questions_per_s", result.PerSecond(total.questions)},
      {"candidates_per_s", result.PerSecond(total.num_candidates(CallOutcome::kAnswered))},
      {"input_tokens_per_s", result.PerSecond(total.input_tokens)},
      {"unique_tokens_per_s", result.PerSecond(total.unique_tokens)},
      {"computed_tokens_per_s", result.PerSecond(total.computed_tokens)},
      {"error_share", total.error_share()},
      {"retries", static_cast<double>(total.retries)},
  };
  for (int outcome = 0; outcome < kNumCallOutcomes; ++outcome) {
    figures.push_back({std::string(CallOutcomeName(static_cast<CallOutcome>(outcome))),
                       static_cast<double>(total.calls[static_cast<size_t>(outcome)])});
  }
  AddQuantiles("latency", total.latency, &figures);
  AddQuantiles("service", total.service_time, &figures);
  AddQuantiles("lateness", total.lateness, &figures);
  AddQuantiles("refusal", total.refusal, &figures);
  for (int stage = 0; stage < kNumStages; ++stage) {
    AddQuantiles(StageName(static_cast<Stage>(stage)), total.stages[static_cast<size_t>(stage)],
                 &figures);
  }
  return figures;
}

}  // namespace canopy::client
