#include "core/checkpoint/source_check.h"

#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/checkpoint/testing/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4f689c87\nsize 4121816\n";
constexpr char kTensors[] = "\x02\0\0\0\0\0\0\0{}";
const std::string& Tensors() {
  static const auto* const kFile = new std::string(kTensors, sizeof(kTensors) - 1);
  return *kFile;
}

struct File {
  std::string name;
  std::string contents;
};

// Returns the explanation for a folder with these files, or an empty string if there is none.
std::string Said(const std::vector<File>& files, bool needs_config = true) {
  const TemporaryFolder folder;
  for (const File& file : files) {
    std::filesystem::create_directories(
        std::filesystem::path(folder.Join(file.name)).parent_path());
    folder.Write(file.name, file.contents);
  }
  std::string text(CheckModelSource(folder.path(), needs_config).message());
  EXPECT_THAT(text, Not(HasSubstr("\n"))) << "one line";
  return text;
}

std::string SaidOf(const std::string& source) {
  return std::string(CheckModelSource(source, /*needs_config=*/true).message());
}

TEST(SourceCheckTest, AcceptsCheckpointFolders) {
  EXPECT_EQ(Said({{"config.json", "{}"}, {"model.safetensors", Tensors()}}), "");
  EXPECT_EQ(Said({{"config.json", "{}"},
                  {"model.safetensors.index.json", "{}"},
                  {"model-00001-of-00002.safetensors", Tensors()},
                  {"pytorch_model.bin", "x"},
                  {"model.gguf", "GGUF"}}),
            "");
  EXPECT_EQ(Said({{"model.safetensors", Tensors()}}, /*needs_config=*/false), "");
  // A second layout that is not completely downloaded is not read.
  EXPECT_EQ(Said({{"config.json", "{}"},
                  {"model.safetensors", Tensors()},
                  {"consolidated.safetensors", kPointer}}),
            "");
}

TEST(SourceCheckTest, ExplainsNamesThatAreNoPath) {
  EXPECT_THAT(SaidOf("Qwen/Qwen3-0.6B"),
              HasSubstr("hf download Qwen/Qwen3-0.6B --local-dir FOLDER"));
  EXPECT_THAT(SaidOf("file:///models/qwen"), HasSubstr("without file://"));
  EXPECT_THAT(SaidOf("https://huggingface.co/Qwen/Qwen3-0.6B"), HasSubstr("is a URL: download"));
  EXPECT_THAT(SaidOf("hf://Qwen/Qwen3-0.6B"), HasSubstr("is a URL: download"));
  EXPECT_THAT(SaidOf("~/models/qwen"), HasSubstr("write $HOME"));
  EXPECT_EQ(SaidOf("/no/such/place"), "no such folder: /no/such/place");
  EXPECT_THAT(SaidOf("./no/such"), HasSubstr("no such folder"));
  EXPECT_THAT(SaidOf("/" + std::string(5000, 'x')), HasSubstr("File name too long"));
}

TEST(SourceCheckTest, ExplainsSingleFiles) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& name, const std::string& contents) {
    return SaidOf(folder.Write(name, contents));
  };
  EXPECT_THAT(said("model-q4.gguf", "GGUF\x03"), HasSubstr("is a GGUF file"));
  EXPECT_THAT(said("model.safetensors", Tensors()), HasSubstr("give the folder that holds it"));
  EXPECT_THAT(said("other.safetensors", kPointer), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(said("pytorch_model.bin", "PK\x03\x04rest"), HasSubstr("saved by PyTorch"));
  EXPECT_THAT(said("model.pt", "\x80\x02}q"), HasSubstr("Python pickle"));
  EXPECT_THAT(said("model.tar.gz", "\x1f\x8b\x08"), HasSubstr("gzip archive"));
  EXPECT_THAT(said("model.onnx", "\x08\x07"), HasSubstr("ONNX"));
  EXPECT_THAT(said("config.json", "{}"), HasSubstr("synthetic:"));
  EXPECT_THAT(said("login.html", "\n<!DOCTYPE html><html>"), HasSubstr("web page"));
  EXPECT_THAT(said("empty", ""), HasSubstr("is empty"));
  EXPECT_THAT(said("notes.txt", "hello"), HasSubstr("give the folder of a checkpoint"));
  EXPECT_THAT(SaidOf("/dev/null"), HasSubstr("neither a folder nor a file"));
}

TEST(SourceCheckTest, ExplainsFoldersWithoutAConfiguration) {
  EXPECT_THAT(Said({}), HasSubstr("is an empty folder"));
  EXPECT_THAT(Said({{"snapshots/abc123/config.json", "{}"}, {"refs/main", "abc123"}}),
              HasSubstr("/snapshots/abc123"));
  EXPECT_THAT(Said({{"adapter_config.json", "{}"}, {"adapter_model.safetensors", Tensors()}}),
              HasSubstr("LoRA adapter"));
  EXPECT_THAT(Said({{"tokenizer.json", "{}"}, {"tokenizer_config.json", "{}"}}),
              HasSubstr("tokenizer only"));
  EXPECT_THAT(Said({{"model.safetensors", Tensors()}}), HasSubstr("--config"));
  EXPECT_THAT(Said({{"qwen-q4.gguf", "GGUF"}}), HasSubstr("GGUF only (qwen-q4.gguf)"));
  EXPECT_THAT(Said({{"params.json", "{}"}, {"consolidated.00.pth", "x"}}),
              HasSubstr("no safetensors weights (but consolidated.00.pth)"));
  EXPECT_THAT(Said({{"modules.json", "[]"}, {"0_Transformer/config.json", "{}"}}),
              HasSubstr("keeps its transformer in 0_Transformer"));
  EXPECT_THAT(Said({{"readme.md", "x"}}), HasSubstr("has no config.json: is it the folder"));
}

TEST(SourceCheckTest, ExplainsFoldersWithoutWeights) {
  const File config = {"config.json", "{}"};
  EXPECT_THAT(Said({config}), HasSubstr("the weights are missing"));
  EXPECT_THAT(Said({config, {"pytorch_model.bin", "x"}}),
              HasSubstr("no safetensors weights (but pytorch_model.bin)"));
  EXPECT_THAT(Said({config, {"pytorch_model.bin.index.json", "{}"}}), HasSubstr("save_pretrained"));
  EXPECT_THAT(Said({config, {"model.gguf", "GGUF"}}), HasSubstr("GGUF only"));
  EXPECT_THAT(Said({config, {"onnx_model.onnx", "x"}}), HasSubstr("ONNX only"));
  EXPECT_THAT(Said({config, {"model-00001-of-00002.safetensors", Tensors()}}),
              HasSubstr("but no model.safetensors.index.json"));
  EXPECT_THAT(Said({config, {"qwen.safetensors", Tensors()}}),
              HasSubstr("rename the file to model.safetensors"));
  EXPECT_THAT(Said({config, {"adapter_config.json", "{}"}, {"adapter_model.safetensors", "x"}}),
              HasSubstr("merge the adapter"));
}

// transformers would load the adapter's base model instead of the weights in this folder.
TEST(SourceCheckTest, RefusesAnAdapterBesideWeights) {
  EXPECT_THAT(
      Said(
          {{"config.json", "{}"}, {"model.safetensors", Tensors()}, {"adapter_config.json", "{}"}}),
      HasSubstr("or take the adapter's files away"));
}

// Returns the explained error of reading `name`, which holds `contents`.
absl::Status Explained(const std::string& name, const std::string& contents,
                       const std::function<absl::Status(const std::string& path)>& error) {
  const TemporaryFolder folder;
  const std::string path = folder.Write(name, contents);
  return ExplainReadError(folder.path(), error(path));
}

absl::Status Malformed(const std::string& path) {
  return absl::DataLossError(path + ": header of 5 bytes");
}

TEST(SourceCheckTest, ExplainsContentsThatAreNotWhatTheNameSays) {
  const struct {
    const char* name;
    std::string contents;
    const char* said;
  } cases[] = {
      {"config.json", kPointer, "config.json is a Git LFS pointer"},
      {"config.json", "<html>", "is a web page"},
      {"model.safetensors", kPointer, "model.safetensors is a Git LFS pointer"},
      {"model.safetensors", "", "is empty"},
      {"model.safetensors.index.json", kPointer, "index.json is a Git LFS pointer"},
      {"model-00002-of-00002.safetensors", kPointer, "-00002.safetensors is a Git LFS pointer"},
  };
  for (const auto& item : cases) {
    const absl::Status status = Explained(item.name, item.contents, Malformed);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(status.message(), HasSubstr(item.said));
    EXPECT_THAT(status.message(), Not(HasSubstr("header")));
  }
}

TEST(SourceCheckTest, LeavesOtherErrorsAlone) {
  const absl::Status malformed = Explained("model.safetensors", Tensors(), Malformed);
  EXPECT_THAT(malformed.message(), HasSubstr("model.safetensors: header of 5 bytes"));
  // One error names another file, the other is not about contents.
  for (const char* name : {"model-00001-of-00009.safetensors", "model.safetensors", "x.json"}) {
    const absl::Status other = Explained(
        name, "", [](const std::string& path) { return Malformed(path + ".index.json"); });
    EXPECT_THAT(other.message(), HasSubstr(".index.json: header")) << name;
  }
  const absl::Status cancelled = Explained("model.safetensors", "", [](const std::string& path) {
    return absl::CancelledError(path + ": nobody wants it");
  });
  EXPECT_TRUE(absl::IsCancelled(cancelled)) << cancelled;
}

// The pipe has no writer, so opening it without O_NONBLOCK would never return.
TEST(SourceCheckTest, ANamedPipeBlocksNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.Join("model.safetensors");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(ExplainReadError(folder.path(), Malformed(path)).message(), HasSubstr("header of"));
  EXPECT_THAT(SaidOf(path), HasSubstr("neither a folder nor a file"));
}

}  // namespace
}  // namespace canopy
