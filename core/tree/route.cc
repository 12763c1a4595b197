#include "core/tree/route.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace canopy {

bool CanRun(Backend backend, BackendSupport support) {
  switch (backend) {
    case Backend::kAuto:
      return false;
    case Backend::kDense:
    case Backend::kSegmented:
      return support.trees;
    case Backend::kPath:
      return true;
    case Backend::kFused:
      return support.fused;
  }
  return false;
}

std::vector<Backend> RunnableBackends(BackendSupport support) {
  std::vector<Backend> backends;
  for (const Backend backend : kForwardBackends) {
    if (CanRun(backend, support)) {
      backends.push_back(backend);
    }
  }
  return backends;
}

std::string ListBackends(BackendSupport support, absl::FunctionRef<std::string(Backend)> name) {
  std::vector<Backend> backends = RunnableBackends(support);
  std::rotate(backends.begin(), backends.begin() + 1, backends.end());
  std::string list;
  for (const Backend backend : backends) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", name(backend));
  }
  return list;
}

std::string ListBackends(BackendSupport support) {
  return ListBackends(support, [](Backend backend) { return std::string(BackendName(backend)); });
}

}  // namespace canopy
