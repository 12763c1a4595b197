#include "core/checkpoint/source_check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "core/checkpoint/file_copy.h"

namespace canopy {
namespace {

constexpr size_t kFirstBytes = 512;
constexpr size_t kMaxShownNames = 3;
constexpr char kConfig[] = "config.json";
constexpr char kWeights[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr absl::string_view kSafetensors = ".safetensors";
constexpr absl::string_view kConvert =
    "save it as safetensors with transformers: AutoModel.from_pretrained(...).save_pretrained(...)";
constexpr absl::string_view kMerge =
    "merge the adapter into its base model (merge_and_unload() of peft) and serve the result";

absl::Status Wrong(const std::string& source, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source, " ", what));
}

absl::Status Missing(const std::string& source, absl::string_view what) {
  return absl::NotFoundError(absl::StrCat(source, " ", what));
}

// Returns ExplainFirstBytes for a file, or an empty string if it is not a readable regular file.
std::string ExplainContents(const std::string& path) {
  // Without O_NONBLOCK, opening a named pipe without a writer would block forever.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    return "";
  }
  const auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  struct stat info = {};
  std::array<char, kFirstBytes> bytes = {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    return "";
  }
  const ssize_t size = pread(descriptor, bytes.data(), bytes.size(), 0);
  return size < 0 ? "" : ExplainFirstBytes({bytes.data(), static_cast<size_t>(size)});
}

// Returns true for org/name, the form of model names on the Hugging Face hub.
bool LooksLikeHubId(absl::string_view source) {
  const size_t slash = source.find('/');
  const auto is_name = [](absl::string_view part) {
    return !part.empty() && part.front() != '.' &&
           std::all_of(part.begin(), part.end(), [](unsigned char c) {
             return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
           });
  };
  return slash != source.npos && is_name(source.substr(0, slash)) &&
         is_name(source.substr(slash + 1));
}

// Explains texts that are not a path on this machine.
std::string ExplainName(absl::string_view source) {
  if (absl::StartsWith(source, "file://")) {
    return "is a URL: give the path alone, without file://";
  }
  if (absl::StrContains(source, "://")) {
    return "is a URL: download the checkpoint and give the path of its folder";
  }
  if (absl::StartsWith(source, "~")) {
    return "begins with ~, which shells do not expand behind '=': write $HOME or the whole path";
  }
  if (LooksLikeHubId(source)) {
    return absl::StrCat(
        "is no folder here; if it is a model of the Hugging Face hub, download it "
        "first (hf download ",
        source, " --local-dir FOLDER) and give the folder");
  }
  return "";
}

absl::Status ExplainMissing(const std::string& source, int error_number) {
  if (const std::string explanation = ExplainName(source); !explanation.empty()) {
    return Missing(source, explanation);
  }
  if (error_number == ENOENT || error_number == ENOTDIR) {
    struct stat link = {};
    return lstat(source.c_str(), &link) == 0 && S_ISLNK(link.st_mode)
               ? Missing(source, "is a symbolic link to something that is not there")
               : absl::NotFoundError(absl::StrCat("no such folder: ", source));
  }
  return FileError(error_number, "read", source);
}

absl::Status ExplainFile(const std::string& source, mode_t mode) {
  if (!S_ISREG(mode)) {
    return Wrong(source, "is neither a folder nor a file");
  }
  if (access(source.c_str(), R_OK) != 0) {
    return FileError(errno, "read", source);
  }
  if (const std::string explanation = ExplainContents(source); !explanation.empty()) {
    return Wrong(source, absl::StrCat("is ", explanation));
  }
  if (absl::EndsWith(source, kSafetensors)) {
    return Wrong(source, absl::StrCat("is a file of weights: give the folder that holds it as ",
                                      kWeights, " beside its ", kConfig));
  }
  if (absl::EndsWith(source, ".json")) {
    return Wrong(source,
                 absl::StrCat("is a file: give the folder that holds it and the weights, or "
                              "synthetic:",
                              source, " for random weights"));
  }
  if (absl::EndsWith(source, ".onnx")) {
    return Wrong(source, "is an ONNX model, which is not read: give a folder of safetensors files");
  }
  return Wrong(source, absl::StrCat("is a file: give the folder of a checkpoint, with ", kConfig,
                                    " and ", kWeights));
}

absl::StatusOr<std::set<std::string>> ListFolder(const std::string& folder) {
  DIR* const directory = opendir(folder.c_str());
  if (directory == nullptr) {
    return FileError(errno, "list", folder);
  }
  std::set<std::string> names;
  while (const dirent* const entry = readdir(directory)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      names.emplace(name);
    }
  }
  closedir(directory);
  return names;
}

// Returns the first few names that end with `end` as text, or an empty string if there are none.
std::string NamesWithEnd(const std::set<std::string>& names, absl::string_view end) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (absl::EndsWith(name, end)) {
      found.push_back(name);
    }
  }
  const bool is_cut = found.size() > kMaxShownNames;
  found.resize(std::min(found.size(), kMaxShownNames));
  return absl::StrCat(absl::StrJoin(found, ", "), is_cut ? ", ..." : "");
}

bool Holds(const std::set<std::string>& names, const std::string& name) {
  return names.count(name) > 0;
}

// Explains a folder of the hub's cache, which has a folder for each revision.
std::string ExplainHubCache(const std::string& folder, const std::set<std::string>& names) {
  if (!Holds(names, "snapshots")) {
    return "";
  }
  const auto revisions = ListFolder(absl::StrCat(folder, "/snapshots"));
  const std::string example = revisions.ok() && !revisions->empty()
                                  ? absl::StrCat(folder, "/snapshots/", *revisions->begin())
                                  : absl::StrCat(folder, "/snapshots/REVISION");
  return absl::StrCat(
      "is a model's folder in the Hugging Face cache: give a revision of it, such as ", example);
}

std::string ExplainAdapter(const std::set<std::string>& names) {
  return Holds(names, "adapter_config.json") || Holds(names, "adapter_model.safetensors") ||
                 Holds(names, "adapter_model.bin")
             ? absl::StrCat("holds a LoRA adapter, which is not applied: ", kMerge)
             : "";
}

// Explains weights of other programs; returns an empty string if there are none.
std::string ExplainOtherWeights(const std::set<std::string>& names) {
  if (const std::string gguf = NamesWithEnd(names, ".gguf"); !gguf.empty()) {
    return absl::StrCat(
        "holds weights as GGUF only (", gguf,
        "), which is not read: serve the safetensors checkpoint they were made from");
  }
  if (const std::string onnx = NamesWithEnd(names, ".onnx"); !onnx.empty()) {
    return absl::StrCat(
        "holds weights as ONNX only (", onnx,
        "), which is not read: serve the safetensors checkpoint they were made from");
  }
  for (const absl::string_view end :
       {".bin", ".bin.index.json", ".pt", ".pth", ".h5", ".msgpack"}) {
    if (const std::string pickled = NamesWithEnd(names, end); !pickled.empty()) {
      return absl::StrCat("holds no safetensors weights (but ", pickled, "): ", kConvert);
    }
  }
  return "";
}

std::string ExplainNoConfig(const std::string& folder, const std::set<std::string>& names) {
  for (const std::string& explanation : {ExplainHubCache(folder, names), ExplainAdapter(names)}) {
    if (!explanation.empty()) {
      return explanation;
    }
  }
  if (names.empty()) {
    return "is an empty folder";
  }
  const bool has_weights = !NamesWithEnd(names, kSafetensors).empty();
  if (const std::string other = ExplainOtherWeights(names); !has_weights && !other.empty()) {
    return absl::StrCat("has no ", kConfig, " and ", other);
  }
  if (!has_weights && (Holds(names, "tokenizer.json") || Holds(names, "tokenizer_config.json"))) {
    return "holds a tokenizer only: give the folder of the model";
  }
  if (Holds(names, "0_Transformer")) {
    return absl::StrCat("keeps its transformer in 0_Transformer: move the files of that folder up");
  }
  return absl::StrCat("has no ", kConfig,
                      has_weights ? ": put the model's beside the weights, or name one by --config"
                                  : ": is it the folder of a model?");
}

std::string ExplainNoWeights(const std::set<std::string>& names) {
  if (std::string adapter = ExplainAdapter(names); !adapter.empty()) {
    return adapter;
  }
  if (const std::string found = NamesWithEnd(names, kSafetensors); !found.empty()) {
    return absl::StrContains(found, "-of-")
               ? absl::StrCat("holds ", found, " but no ", kIndex,
                              ", which says what is in them: download it too")
               : absl::StrCat("holds weights under other names (", found, "): rename the file to ",
                              kWeights);
  }
  if (std::string other = ExplainOtherWeights(names); !other.empty()) {
    return other;
  }
  return absl::StrCat("holds neither ", kWeights, " nor ", kIndex, ": the weights are missing");
}

// Returns true if the message starts with exactly this path, not with a longer file name.
bool NamesFile(absl::string_view message, absl::string_view path) {
  return absl::ConsumePrefix(&message, path) &&
         (message.empty() || message.front() == ':' || message.front() == ' ');
}

}  // namespace

std::string ExplainFirstBytes(absl::string_view first_bytes) {
  if (first_bytes.empty()) {
    return "empty: download it again";
  }
  if (absl::StartsWith(first_bytes, "version https://git-lfs.")) {
    return "a Git LFS pointer, not the file itself: run git lfs pull in its folder";
  }
  if (absl::StartsWith(first_bytes, "GGUF")) {
    return "a GGUF file, which is not read: serve the safetensors checkpoint it was made from";
  }
  if (absl::StartsWith(first_bytes, absl::string_view("PK\x03\x04", 4))) {
    return absl::StrCat("a zip archive or weights saved by PyTorch: unpack it, or ", kConvert);
  }
  if (absl::StartsWith(first_bytes, "\x1f\x8b")) {
    return "a gzip archive: unpack it";
  }
  if (absl::StartsWith(first_bytes, "\x80\x02") || absl::StartsWith(first_bytes, "\x80\x04")) {
    return absl::StrCat("a Python pickle, which is not read: ", kConvert);
  }
  const std::string start =
      absl::AsciiStrToLower(absl::StripLeadingAsciiWhitespace(first_bytes.substr(0, 64)));
  if (absl::StartsWith(start, "<!doctype") || absl::StartsWith(start, "<html")) {
    return "a web page, such as one that asks to log in: download the file again";
  }
  return "";
}

absl::Status CheckModelSource(const std::string& source, bool needs_config) {
  struct stat info = {};
  if (stat(source.c_str(), &info) != 0) {
    return ExplainMissing(source, errno);
  }
  if (!S_ISDIR(info.st_mode)) {
    return ExplainFile(source, info.st_mode);
  }
  CANOPY_ASSIGN_OR_RETURN(const std::set<std::string> names, ListFolder(source));
  if (needs_config && !Holds(names, kConfig)) {
    return Missing(source, ExplainNoConfig(source, names));
  }
  const bool has_weights = Holds(names, kWeights) || Holds(names, kIndex);
  if (!has_weights) {
    return Missing(source, ExplainNoWeights(names));
  }
  // A folder with an adapter is refused, because transformers would load the base model and apply
  // it.
  if (const std::string adapter = ExplainAdapter(names); !adapter.empty()) {
    return Wrong(source, absl::StrCat(adapter, ", or take the adapter's files away"));
  }
  return absl::OkStatus();
}

absl::Status ExplainReadError(const std::string& folder, const absl::Status& status) {
  if (!absl::IsNotFound(status) && !absl::IsInvalidArgument(status) && !absl::IsDataLoss(status)) {
    return status;
  }
  const absl::StatusOr<std::set<std::string>> names = ListFolder(folder);
  if (!names.ok()) {
    return status;
  }
  for (const std::string& name : *names) {
    const std::string path = absl::StrCat(folder, "/", name);
    const bool is_of_model = absl::EndsWith(name, kSafetensors) || absl::EndsWith(name, ".json");
    if (!is_of_model || !NamesFile(status.message(), path)) {
      continue;
    }
    if (const std::string found = ExplainContents(path); !found.empty()) {
      return absl::DataLossError(absl::StrCat(path, " is ", found));
    }
  }
  return status;
}

}  // namespace canopy
