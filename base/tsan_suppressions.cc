// What ThreadSanitizer must not believe, besides what base/mutex.h answers: Debian's abseil
// counts the users of an absl::Status where it cannot look, and whoever frees the last of them
// seems to race with those before.
#if defined(__SANITIZE_THREAD__)

extern "C" const char* __tsan_default_suppressions() { return "race:absl::*Status::Unref\n"; }

#endif
