// The trie of some paths of a larger trie.
#ifndef CORE_TREE_SUB_TRIE_H_
#define CORE_TREE_SUB_TRIE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/tree/trie.h"

namespace canopy {

// True when `node` is `descendant` or stands above it.
inline bool IsAncestorOrSelf(const Trie& trie, int32_t node, int32_t descendant) {
  return node <= descendant && descendant <= trie.exit[node];
}

// The nodes above and at `endpoints`, which belong to one question and are in ascending order, as a
// trie of one question. Its path_endpoint has an entry for each of `endpoints`. Linear in its size.
Trie SelectPaths(const Trie& trie, absl::Span<const int32_t> endpoints);

}  // namespace canopy

#endif  // CORE_TREE_SUB_TRIE_H_
