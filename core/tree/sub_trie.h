// Extracts the trie of some paths from a larger trie.
#ifndef CORE_TREE_SUB_TRIE_H_
#define CORE_TREE_SUB_TRIE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/tree/trie.h"

namespace canopy {

// Returns true if `node` is `descendant` or an ancestor of it.
inline bool IsAncestorOrSelf(const Trie& trie, int32_t node, int32_t descendant) {
  return node <= descendant && descendant <= trie.exit[node];
}

// Returns `endpoints` and their ancestors as a trie of one question. Precondition: the endpoints
// belong to one question and ascend. The result's path_endpoint has an entry for each of
// `endpoints`. Linear in the size of the result.
Trie SelectPaths(const Trie& trie, absl::Span<const int32_t> endpoints);

}  // namespace canopy

#endif  // CORE_TREE_SUB_TRIE_H_
