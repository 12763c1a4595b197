#include "core/tree/run_trie.h"

#include <algorithm>
#include <cstddef>

namespace canopy {
namespace {

// Up to this many children a walk through the siblings is faster than a hash table.
constexpr int32_t kMaxListedChildren = 8;

// Returns the length of the common prefix. Compares in blocks that the compiler can vectorize.
int32_t CommonPrefix(absl::Span<const int32_t> a, absl::Span<const int32_t> b) {
  constexpr size_t kBlock = 16;
  const size_t size = std::min(a.size(), b.size());
  size_t i = 0;
  for (; i + kBlock <= size; i += kBlock) {
    int32_t difference = 0;
    for (size_t k = 0; k < kBlock; ++k) {
      difference |= a[i + k] ^ b[i + k];
    }
    if (difference != 0) {
      break;
    }
  }
  while (i < size && a[i] == b[i]) {
    ++i;
  }
  return static_cast<int32_t>(i);
}

uint64_t ChildKey(int32_t table, int32_t token) {
  return uint64_t{static_cast<uint32_t>(table)} << 32 | static_cast<uint32_t>(token);
}

}  // namespace

RunTrie::RunTrie(const PathBatch& batch) : batch_(batch) {
  // Most paths add one run; a split adds another.
  runs_.reserve(static_cast<size_t>(batch.num_questions()) + batch.num_paths());
  roots_.reserve(batch.num_questions());
  next_path_.assign(batch.num_paths(), kNone);
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    AddQuestion(question);
  }
}

int64_t RunTrie::num_nodes() const {
  int64_t nodes = 0;
  for (const Run& run : runs_) {
    nodes += run.size;
  }
  return nodes;
}

void RunTrie::AddQuestion(int32_t question) {
  const TokenSpan& prefix = batch_.prefixes[question];
  const auto root = static_cast<int32_t>(runs_.size());
  roots_.push_back(root);
  runs_.emplace_back();
  runs_.back().begin = prefix.begin;
  runs_.back().size = prefix.size;
  open_.assign(1, root);

  absl::Span<const int32_t> previous;
  const int32_t end_path = batch_.question_offsets[question + 1];
  for (int32_t path = batch_.question_offsets[question]; path < end_path; ++path) {
    const absl::Span<const int32_t> suffix = batch_.Tokens(batch_.suffixes[path]);
    AddPath(path, CommonPrefix(previous, suffix));
    previous = suffix;
  }
}

// `shared_tokens` is the length of the common prefix with the suffix that was added before.
void RunTrie::AddPath(int32_t path, int32_t shared_tokens) {
  const absl::Span<const int32_t> suffix = batch_.Tokens(batch_.suffixes[path]);
  const auto size = static_cast<int32_t>(suffix.size());
  while (open_.size() > 1 && runs_[open_[open_.size() - 2]].end >= shared_tokens) {
    open_.pop_back();
  }
  int32_t position = shared_tokens;
  while (true) {
    const int32_t last = open_.back();
    if (position < runs_[last].end) {
      Split(last, position);
    }
    if (position == size) {
      break;
    }
    const Child child = FindOrAddChild(last, path, position);
    if (child.added) {
      position = size;
    } else {
      const Run& run = runs_[child.index];
      position += CommonPrefix(batch_.Tokens({run.begin, run.size}), suffix.subspan(position));
    }
    open_.push_back(child.index);
  }
  int32_t& last_path = runs_[open_.back()].last_path;
  next_path_[path] = last_path;
  last_path = path;
}

// The upper part keeps the index, so that its parent and siblings remain valid.
void RunTrie::Split(int32_t index, int32_t position) {
  const auto lower_index = static_cast<int32_t>(runs_.size());
  Run lower = runs_[index];
  const int32_t upper_size = lower.size - (lower.end - position);
  lower.begin += upper_size;
  lower.size -= upper_size;
  lower.token = batch_.tokens[lower.begin];
  lower.next_sibling = kNone;
  runs_.push_back(lower);

  Run& upper = runs_[index];
  upper.size = upper_size;
  upper.end = position;
  upper.first_child = lower_index;
  upper.last_child = lower_index;
  upper.num_children = 1;
  upper.child_table = kNone;
  upper.last_path = kNone;
}

RunTrie::Child RunTrie::FindOrAddChild(int32_t parent, int32_t path, int32_t position) {
  const TokenSpan& suffix = batch_.suffixes[path];
  const int32_t token = batch_.tokens[suffix.begin + position];
  const auto new_index = static_cast<int32_t>(runs_.size());
  if (const int32_t table = runs_[parent].child_table; table != kNone) {
    const auto [entry, added] = children_.try_emplace(ChildKey(table, token), new_index);
    if (!added) {
      return {entry->second, false};
    }
  } else {
    for (int32_t child = runs_[parent].first_child; child != kNone;
         child = runs_[child].next_sibling) {
      if (runs_[child].token == token) {
        return {child, false};
      }
    }
  }
  // constructed in place, because a copy would wait for the table's cache miss
  Run& child = runs_.emplace_back();
  child.begin = suffix.begin + position;
  child.size = suffix.size - position;
  child.end = suffix.size;
  child.token = token;
  AppendChild(parent, new_index);
  return {new_index, true};
}

void RunTrie::AppendChild(int32_t parent, int32_t child) {
  Run& run = runs_[parent];
  if (run.first_child == kNone) {
    run.first_child = child;
  } else {
    runs_[run.last_child].next_sibling = child;
  }
  run.last_child = child;
  ++run.num_children;
  if (run.child_table == kNone && run.num_children > kMaxListedChildren) {
    IndexChildren(parent);
  }
}

void RunTrie::IndexChildren(int32_t parent) {
  children_.reserve(batch_.num_paths());  // rehashing during the inserts costs more
  Run& run = runs_[parent];
  run.child_table = num_tables_++;
  for (int32_t child = run.first_child; child != kNone; child = runs_[child].next_sibling) {
    children_.emplace(ChildKey(run.child_table, runs_[child].token), child);
  }
}

}  // namespace canopy
