#include "core/ops/recompute.h"

#include <cstddef>
#include <mutex>
#include <utility>

#include "ATen/Context.h"
#include "ATen/autocast_mode.h"
#include "c10/core/GradMode.h"
#include "c10/util/intrusive_ptr.h"
#include "torch/csrc/autograd/autograd.h"
#include "torch/csrc/autograd/custom_function.h"

namespace canopy {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor GeneratorState(at::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetGeneratorState(at::Device device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// The settings of LibTorch on this thread that affect a result in addition to its inputs.
struct Settings {
  bool autocast = false;
  at::ScalarType autocast_type = at::kFloat;
  bool autocast_cache = false;

  static Settings Current(at::DeviceType device) {
    return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device),
            at::autocast::is_autocast_cache_enabled()};
  }
  void Apply(at::DeviceType device) const {
    at::autocast::set_autocast_enabled(device, autocast);
    at::autocast::set_autocast_dtype(device, autocast_type);
    at::autocast::set_autocast_cache_enabled(autocast_cache);
  }
};

// Applies settings for the duration of a scope. Autocast's cache is disabled, because it would hand
// tensors without a gradient to later code.
class SettingsScope {
 public:
  SettingsScope(at::DeviceType device, Settings settings)
      : device_(device), before_(Settings::Current(device)) {
    settings.autocast_cache = false;
    settings.Apply(device);
  }
  ~SettingsScope() { before_.Apply(device_); }
  SettingsScope(const SettingsScope&) = delete;
  SettingsScope& operator=(const SettingsScope&) = delete;

 private:
  const at::DeviceType device_;
  const Settings before_;
};

// One call of RecomputeInBackward. It stores which inputs are defined, because LibTorch's autograd
// functions accept only defined tensors.
struct Computation : torch::CustomClassHolder {
  // `inputs` are the defined inputs.
  variable_list Run(const variable_list& inputs) const {
    variable_list all(is_defined.size());
    size_t next = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      if (is_defined[i]) {
        all[i] = inputs[next++];
      }
    }
    return function(all);
  }

  TensorsFunction function;
  std::vector<bool> is_defined;
  at::Device device = at::kCPU;
  Settings settings;
  at::Tensor generator_state;
};

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static variable_list forward(AutogradContext* context,
                               const c10::intrusive_ptr<Computation>& computation,
                               at::TensorList inputs) {
    context->saved_data["computation"] = c10::IValue::make_capsule(computation);
    context->save_for_backward(inputs.vec());
    const SettingsScope scope(computation->device.type(), computation->settings);
    return computation->Run(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto computation = c10::static_intrusive_pointer_cast<Computation>(
        context->saved_data["computation"].toCapsule());
    variable_list inputs = context->get_saved_variables();
    variable_list wanted;
    for (at::Tensor& input : inputs) {
      input = input.detach().set_requires_grad(input.requires_grad());
      if (input.requires_grad()) {
        wanted.push_back(input);
      }
    }
    // Results without a gradient, such as integers, are skipped.
    variable_list outputs;
    variable_list output_gradients;
    const variable_list all_outputs = RunAgain(*computation, inputs);
    for (size_t i = 0; i < all_outputs.size(); ++i) {
      if (all_outputs[i].requires_grad()) {
        outputs.push_back(all_outputs[i]);
        output_gradients.push_back(gradients[i]);
      }
    }
    const variable_list found =
        torch::autograd::grad(outputs, wanted, output_gradients, /*retain_graph=*/std::nullopt,
                              /*create_graph=*/false, /*allow_unused=*/true);
    // The first argument, the computation, has no gradient.
    variable_list results = {at::Tensor()};
    size_t next = 0;
    for (const at::Tensor& input : inputs) {
      results.push_back(input.requires_grad() ? found[next++] : at::Tensor());
    }
    return results;
  }

 private:
  static variable_list RunAgain(const Computation& computation, const variable_list& inputs) {
    const c10::AutoGradMode with_gradients(true);
    const SettingsScope scope(computation.device.type(), computation.settings);
    const at::Tensor state = GeneratorState(computation.device);
    SetGeneratorState(computation.device, computation.generator_state);
    variable_list outputs = computation.Run(inputs);
    SetGeneratorState(computation.device, state);
    return outputs;
  }
};

}  // namespace

std::vector<at::Tensor> RecomputeInBackward(TensorsFunction function,
                                            const std::vector<at::Tensor>& inputs) {
  auto computation = c10::make_intrusive<Computation>();
  computation->function = std::move(function);
  variable_list defined;
  for (const at::Tensor& input : inputs) {
    computation->is_defined.push_back(input.defined());
    if (input.defined()) {
      defined.push_back(input);
    }
  }
  computation->device = defined.front().device();
  computation->settings = Settings::Current(computation->device.type());
  computation->generator_state = GeneratorState(computation->device);
  return Recompute::apply(computation, at::TensorList(defined));
}

}  // namespace canopy
