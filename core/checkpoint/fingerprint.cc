#include "core/checkpoint/fingerprint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "core/checkpoint/helper_threads.h"

namespace canopy {
namespace {

constexpr size_t kFingerprintBytes = 8;
constexpr absl::string_view kTag = "canopy fingerprint 2\n";
constexpr size_t kDigestBytes = 32;
constexpr std::chrono::milliseconds kCheckInterval{50};

using Digest = std::array<uint8_t, kDigestBytes>;

// Computes a SHA-256. Finish returns an error if OpenSSL failed at any point.
class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    ok_ = context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }

  void AddBytes(const void* data, size_t size) {
    ok_ = ok_ && EVP_DigestUpdate(context_.get(), data, size) == 1;
  }

  void AddInteger(uint64_t value) {
    std::array<uint8_t, 8> little_endian = {};
    for (uint8_t& byte : little_endian) {
      byte = static_cast<uint8_t>(value & 0xff);
      value >>= 8;
    }
    AddBytes(little_endian.data(), little_endian.size());
  }

  void AddString(absl::string_view text) {
    AddInteger(text.size());
    AddBytes(text.data(), text.size());
  }

  absl::Status Finish(Digest* digest) {
    std::array<uint8_t, EVP_MAX_MD_SIZE> bytes = {};
    ok_ = ok_ && EVP_DigestFinal_ex(context_.get(), bytes.data(), nullptr) == 1;
    std::copy_n(bytes.begin(), kDigestBytes, digest->begin());
    return ok_ ? absl::OkStatus()
               : absl::InternalError("SHA-256 is not available from the cryptography library");
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
  bool ok_ = false;
};

std::string ShortHex(const Digest& digest) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), kFingerprintBytes));
}

// Hashes the data of tensors on several threads, starting with the largest tensors.
class TensorHasher {
 public:
  TensorHasher(absl::Span<const TensorView> tensors, HashOptions options)
      : tensors_(tensors), options_(std::move(options)), digests_(tensors.size()) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      order_.push_back(i);
    }
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return tensors[a].bytes.size() > tensors[b].bytes.size();
    });
  }

  // Returns the digests in the order of the tensors.
  absl::StatusOr<std::vector<Digest>> Run() {
    std::vector<std::future<absl::Status>> helpers;
    for (int i = 1; i < options_.num_threads; ++i) {
      auto helper = StartHelper([this] { return HashAll(nullptr); });
      if (!helper.has_value()) {
        break;  // the threads that started hash all tensors
      }
      helpers.push_back(*std::move(helper));
    }
    absl::Status status = HashAll(options_.check_wanted);
    for (std::future<absl::Status>& helper : helpers) {
      while (helper.wait_for(kCheckInterval) != std::future_status::ready) {
        if (status.ok() && options_.check_wanted) {
          status = options_.check_wanted();
        }
        stop_ = stop_ || !status.ok();
      }
      status.Update(helper.get());
    }
    if (!status.ok()) {
      return status;
    }
    return std::move(digests_);
  }

 private:
  absl::Status HashAll(const WantedCheck& check_wanted) {
    while (!stop_) {
      const size_t next = next_.fetch_add(1);
      if (next >= order_.size()) {
        break;
      }
      CANOPY_RETURN_IF_ERROR(HashOne(order_[next], check_wanted));
    }
    return absl::OkStatus();
  }

  absl::Status HashOne(size_t index, const WantedCheck& check_wanted) {
    const absl::Span<const uint8_t> bytes = tensors_[index].bytes;
    Sha256 hash;
    size_t begin = 0;
    do {
      if (absl::Status wanted = check_wanted ? check_wanted() : absl::OkStatus(); !wanted.ok()) {
        stop_ = true;
        return wanted;
      }
      const size_t step = std::min(kStepBytes, bytes.size() - begin);
      hash.AddBytes(bytes.data() + begin, step);
      begin += step;
    } while (begin < bytes.size() && !stop_);
    return hash.Finish(&digests_[index]);
  }

  const absl::Span<const TensorView> tensors_;
  const HashOptions options_;
  std::vector<size_t> order_;
  std::vector<Digest> digests_;  // each element is written by the thread that hashes its tensor
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace

absl::StatusOr<std::string> Fingerprint(const std::map<std::string, std::string>& settings,
                                        const WeightSource& source, const HashOptions& options) {
  CANOPY_ASSIGN_OR_RETURN(const std::vector<Digest> digests,
                          TensorHasher(source.tensors(), options).Run());
  Sha256 hash;
  hash.AddBytes(kTag.data(), kTag.size());
  hash.AddInteger(settings.size());
  for (const auto& [name, value] : settings) {
    hash.AddString(name);
    hash.AddString(value);
  }
  hash.AddInteger(digests.size());
  for (size_t i = 0; i < digests.size(); ++i) {
    const TensorView& tensor = source.tensors()[i];
    hash.AddString(tensor.name);
    hash.AddString(DTypeName(tensor.dtype));
    hash.AddInteger(tensor.shape.size());
    for (const int64_t dimension : tensor.shape) {
      hash.AddInteger(static_cast<uint64_t>(dimension));
    }
    hash.AddBytes(digests[i].data(), digests[i].size());
  }
  Digest digest = {};
  CANOPY_RETURN_IF_ERROR(hash.Finish(&digest));
  return ShortHex(digest);
}

absl::StatusOr<std::string> ShortHash(absl::string_view text) {
  Sha256 hash;
  hash.AddBytes(text.data(), text.size());
  Digest digest = {};
  CANOPY_RETURN_IF_ERROR(hash.Finish(&digest));
  return ShortHex(digest);
}

}  // namespace canopy
