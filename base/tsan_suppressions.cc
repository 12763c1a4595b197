// Suppresses false reports of ThreadSanitizer that base/mutex.h cannot prevent. Debian's abseil
// counts the references to an absl::Status in uninstrumented code, so the thread that frees the
// last reference seems to race with the earlier users.
#include "absl/base/config.h"

#if defined(ABSL_HAVE_THREAD_SANITIZER)

// Calls of the C library from uninstrumented libraries, such as gRPC freeing memory, are ignored.
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

extern "C" const char* __tsan_default_suppressions() { return "race:absl::*Status::Unref\n"; }

#endif
