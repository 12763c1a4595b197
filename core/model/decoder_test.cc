// Tests the order and the arguments of the decoder's steps, with LayerOps that record their calls.
#include "core/model/decoder.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ATen/ops/full.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

// Records the steps that the decoder calls. Each tensor is a single number, and each step returns
// the next number, so the record "name(arguments)=result" shows which step uses which result.
class WritingOps : public LayerOps {
 public:
  at::Tensor Embed(const at::Tensor& embedding) override { return Note("embed", {embedding}); }
  at::Tensor Attend(const at::Tensor& hidden, const at::Tensor& norm,
                    const AttentionWeights& attention) override {
    return Note(attention.slides ? "slide" : "attend", {hidden, norm, attention.heads.weight});
  }
  MixedRows ReadRows(const MixedRows& rows) override {
    const at::Tensor hidden = Note("read", {rows.hidden});
    return {hidden, Note("read", {rows.mixed})};
  }
  at::Tensor AddOutput(const MixedRows& rows, const at::Tensor& output,
                       const at::Tensor& bias) override {
    return Note("output", {rows.hidden, rows.mixed, output, bias});
  }
  at::Tensor AddGatedMlp(const at::Tensor& hidden, const at::Tensor& norm,
                         const GatedMlpWeights& mlp) override {
    return Note("mlp", {hidden, norm, mlp.gate_up});
  }
  at::Tensor AddExperts(const at::Tensor& hidden, const at::Tensor& norm,
                        const ExpertWeights& experts) override {
    return Note("experts", {hidden, norm, experts.router});
  }
  at::Tensor FinalNorm(const at::Tensor& hidden, const at::Tensor& norm) override {
    return Note("norm", {hidden, norm});
  }
  at::Tensor Run(LayerFunction function, const LayerWeights& layer,
                 const at::Tensor& hidden) override {
    steps_.emplace_back("layer");
    return function(*this, layer, hidden);
  }

  // Returns the recorded steps and clears the record.
  std::string TakeSteps() {
    std::string steps = absl::StrJoin(steps_, " ");
    steps_.clear();
    return steps;
  }

 private:
  at::Tensor Note(const std::string& name, const std::vector<at::Tensor>& arguments) {
    std::vector<std::string> numbers;
    numbers.reserve(arguments.size());
    for (const at::Tensor& argument : arguments) {
      numbers.push_back(argument.defined() ? absl::StrCat(argument.item<int64_t>()) : "-");
    }
    steps_.push_back(absl::StrCat(name, "(", absl::StrJoin(numbers, ","), ")=", next_));
    return at::full({}, next_++, at::kLong);
  }

  std::vector<std::string> steps_;
  int64_t next_ = 1;
};

at::Tensor Number(int64_t value) { return at::full({}, value, at::kLong); }

// The tensors of layer i are numbered from 100 + 10 i.
LayerWeights Layer(int64_t index, bool slides, bool sparse) {
  const int64_t base = 100 + 10 * index;
  AttentionWeights attention;
  attention.heads.weight = Number(base + 1);
  attention.slides = slides;
  LayerWeights layer;
  layer.mixer_norm = Number(base);
  layer.mixer = attention;
  layer.output = Number(base + 2);
  layer.output_bias = index == 1 ? Number(base + 3) : at::Tensor();
  layer.channel_norm = Number(base + 4);
  if (sparse) {
    layer.channel = ExpertWeights{Number(base + 5), {}, {}};
  } else {
    layer.channel = GatedMlpWeights{Number(base + 6), {}};
  }
  return layer;
}

DecoderWeights ThreeLayers() {
  DecoderWeights weights;
  weights.embedding = Number(90);
  weights.layers = {Layer(0, false, false), Layer(1, true, true), Layer(2, false, false)};
  weights.final_norm = Number(91);
  return weights;
}

TEST(DecoderTest, TakesEachLayersOwnStepsAndReadsRowsAfterTheLastMixer) {
  WritingOps ops;
  EXPECT_EQ(Decode(ThreeLayers(), ops).item<int64_t>(), 13);
  EXPECT_EQ(ops.TakeSteps(),
            "embed(90)=1 "
            "layer attend(1,100,101)=2 output(1,2,102,-)=3 mlp(3,104,106)=4 "
            "layer slide(4,110,111)=5 output(4,5,112,113)=6 experts(6,114,115)=7 "
            "layer attend(7,120,121)=8 read(7)=9 read(8)=10 output(9,10,122,-)=11 "
            "mlp(11,124,126)=12 "
            "norm(12,91)=13");
}

TEST(DecoderTest, ItsTwoPartsAreTheSameStepsCutAfterTheLastMixer) {
  WritingOps ops;
  const DecoderWeights weights = ThreeLayers();
  const MixedRows last = DecodeToLastMixer(weights, ops);
  EXPECT_EQ(last.hidden.item<int64_t>(), 7);
  EXPECT_EQ(last.mixed.item<int64_t>(), 8);
  EXPECT_EQ(ops.TakeSteps(),
            "embed(90)=1 "
            "layer attend(1,100,101)=2 output(1,2,102,-)=3 mlp(3,104,106)=4 "
            "layer slide(4,110,111)=5 output(4,5,112,113)=6 experts(6,114,115)=7 "
            "attend(7,120,121)=8");
  EXPECT_EQ(DecodeRest(weights, last, ops).item<int64_t>(), 13);
  EXPECT_EQ(ops.TakeSteps(),
            "read(7)=9 read(8)=10 output(9,10,122,-)=11 mlp(11,124,126)=12 norm(12,91)=13");
}

TEST(LayerWeightsTest, AreTheirKindsAndTheirTensors) {
  for (const LayerWeights& layer : ThreeLayers().layers) {
    const std::vector<at::Tensor> tensors = TensorsOf(layer);
    const LayerWeights empty = WithTensors(layer, std::vector<at::Tensor>(tensors.size()));
    for (const at::Tensor& tensor : TensorsOf(empty)) {
      EXPECT_FALSE(tensor.defined());
    }
    const std::vector<at::Tensor> again = TensorsOf(WithTensors(empty, tensors));
    ASSERT_EQ(again.size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(again[i].is_same(tensors[i])) << i;
    }
    EXPECT_EQ(std::get<AttentionWeights>(empty.mixer).slides,
              std::get<AttentionWeights>(layer.mixer).slides);
    EXPECT_EQ(empty.channel.index(), layer.channel.index());
  }
}

}  // namespace
}  // namespace canopy
