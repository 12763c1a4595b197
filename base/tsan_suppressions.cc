// Suppresses false reports of ThreadSanitizer that base/mutex.h cannot prevent. Debian's abseil
// counts the references to an absl::Status in uninstrumented code, so the thread that frees the
// last reference seems to race with the earlier users.
#if defined(__SANITIZE_THREAD__)

extern "C" const char* __tsan_default_suppressions() { return "race:absl::*Status::Unref\n"; }

#endif
