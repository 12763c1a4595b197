#include "client/cli/run_cli.h"

#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_text.h"
#include "base/whole_file.h"
#include "client/answer_json.h"
#include "client/cli/command_line.h"
#include "client/cli/flags.h"
#include "client/cli/folder_fingerprint.h"
#include "client/cli/model_table.h"
#include "client/cli/request_flags.h"
#include "client/cli/score_table.h"
#include "client/cli/terminal_text.h"
#include "client/cli/tree_drawing.h"
#include "client/client.h"
#include "client/codec.h"
#include "client/connection_hint.h"
#include "client/error_details.h"

namespace canopy::client {
namespace {

// One run of one command.
class Session {
 public:
  Session(CommandLine line, const Streams& streams, std::unique_ptr<Client> client)
      : line_(std::move(line)),
        streams_(streams),
        client_(std::move(client)),
        palette_(absl::GetFlag(FLAGS_color) == "always" ||
                 (absl::GetFlag(FLAGS_color) == "auto" && streams.out_is_terminal)) {}

  ExitCode Run() {
    if (line_.command == "score") {
      return Score();
    }
    if (line_.command == "explain") {
      return Explain();
    }
    if (line_.command == "load_weights") {
      return LoadWeights();
    }
    return line_.command == "model" ? Model() : CheckHealth();
  }

 private:
  ExitCode Score() {
    v1::ScoreRequest request;
    if (absl::Status status = ReadRequest(&request); !status.ok()) {
      return Fail(kUsage, status.message());
    }
    const absl::StatusOr<v1::ScoreResponse> response =
        client_->Score(request, {absl::GetFlag(FLAGS_traceparent)});
    if (!response.ok()) {
      return Refuse(response.status());
    }
    return Print(AsJson() ? ScoreResponseToJson(*response) + "\n"
                          : ScoreTables(request, *response, palette_));
  }

  ExitCode Explain() {
    v1::ExplainRequest request;
    if (absl::Status status = ReadRequest(request.mutable_request()); !status.ok()) {
      return Fail(kUsage, status.message());
    }
    const std::string svg_file = absl::GetFlag(FLAGS_svg);
    request.set_svg(!svg_file.empty());
    request.set_max_svg_segments(absl::GetFlag(FLAGS_max_svg_segments));
    const absl::StatusOr<v1::ExplainResponse> response =
        client_->Explain(request, {absl::GetFlag(FLAGS_traceparent)});
    if (!response.ok()) {
      return Refuse(response.status());
    }
    if (request.svg()) {
      if (absl::Status status = WriteOutputFile(svg_file, response->svg()); !status.ok()) {
        return Fail(kUsage, absl::StrCat("--svg: ", status.message()));
      }
    }
    return Print(AsJson() ? ExplainResponseToJson(*response) + "\n"
                          : DrawTrees(request.request(), *response, palette_));
  }

  ExitCode Model() {
    v1::ListModelsResponse models;
    if (const std::string name = absl::GetFlag(FLAGS_model); !name.empty()) {
      v1::GetModelRequest request;
      request.set_name(name);
      absl::StatusOr<v1::Model> model = client_->GetModel(request);
      if (!model.ok()) {
        return Refuse(model.status());
      }
      *models.add_models() = *std::move(model);
    } else {
      absl::StatusOr<v1::ListModelsResponse> all = client_->ListModels();
      if (!all.ok()) {
        return Refuse(all.status());
      }
      models = *std::move(all);
    }
    return Print(AsJson() ? ModelsToJson(models) + "\n" : ModelTables(models, palette_));
  }

  ExitCode LoadWeights() {
    v1::LoadWeightsRequest request;
    request.set_model(absl::GetFlag(FLAGS_model));
    request.set_source(absl::GetFlag(FLAGS_source));
    request.set_expected_fingerprint(absl::GetFlag(FLAGS_expected_fingerprint));
    if (request.source().empty()) {
      return Fail(kUsage, "--source is needed");
    }
    absl::StatusOr<v1::Model> model = client_->LoadWeights(request);
    if (!model.ok()) {
      return Refuse(model.status());
    }
    v1::ListModelsResponse models;
    *models.add_models() = *std::move(model);
    return Print(AsJson() ? ModelsToJson(models) + "\n" : ModelTables(models, palette_));
  }

  ExitCode CheckHealth() {
    const absl::StatusOr<Health> live = client_->Check("");
    if (!live.ok()) {
      return Refuse(live.status());
    }
    const absl::StatusOr<Health> ready = client_->Check("canopy.v1.Scorer");
    if (!ready.ok()) {
      return Refuse(ready.status());
    }
    const ExitCode printed = Print(absl::StrCat(
        AsJson() ? "{\"live\":\"" : "live   ", HealthName(*live),
        AsJson() ? "\",\"ready\":\"" : "\nready  ", HealthName(*ready), AsJson() ? "\"}\n" : "\n"));
    const bool serving = *live == Health::kServing && *ready == Health::kServing;
    return printed == kOk && !serving ? kRefused : printed;
  }

  absl::Status ReadRequest(v1::ScoreRequest* request) {
    if (absl::Status status = FillFromFlags(request); !status.ok()) {
      return status;
    }
    const std::string flag = absl::GetFlag(FLAGS_input);
    if (!line_.files.empty() && flag != "-") {
      return absl::InvalidArgumentError("--input and a file are both given");
    }
    const std::string name = line_.files.empty() ? flag : line_.files[0];
    std::ifstream file;
    if (name != "-") {
      if (absl::Status status = OpenForReading(name, &file); !status.ok()) {
        return status;
      }
    } else if (streams_.in_is_terminal && line_.files.empty()) {
      return absl::InvalidArgumentError(
          "stdin is a terminal: name a FILE of JSON lines, or pipe them in; with `-` as FILE they "
          "are read from the terminal");
    }
    absl::Status status = ReadQuestions(name == "-" ? streams_.in : file, request);
    if (status.ok() && request->questions().empty()) {
      status = absl::InvalidArgumentError("no questions");
    }
    return status.ok() ? status
                       : absl::InvalidArgumentError(
                             absl::StrCat(name == "-" ? "stdin" : name, ": ", status.message()));
  }

  static bool AsJson() { return absl::GetFlag(FLAGS_format) == "json"; }

  static absl::string_view HealthName(Health health) {
    switch (health) {
      case Health::kServing:
        return "SERVING";
      case Health::kNotServing:
        return "NOT_SERVING";
      case Health::kServiceUnknown:
        return "SERVICE_UNKNOWN";
      default:
        return "UNKNOWN";
    }
  }

  ExitCode Print(absl::string_view answer) {
    streams_.out << answer << std::flush;
    return streams_.out ? kOk : Fail(kUsage, "cannot write the answer");
  }

  ExitCode Fail(ExitCode code, absl::string_view problem) {
    streams_.err << "canopy: " << EscapeForTerminal(problem) << "\n";
    return code;
  }

  // Prints the server's refusal, with one line per violation.
  ExitCode Refuse(const absl::Status& status) {
    const ErrorDetails details = GetErrorDetails(status);
    const std::vector<FieldViolation>& violations = details.violations;
    std::string summary(status.message());
    if (violations.size() > 1) {
      summary = Mentions(details.server_message, violations[0])
                    ? absl::StrCat(violations.size(), " field violations")
                    : details.server_message;
    }
    streams_.err << "canopy: " << absl::StatusCodeToString(status.code()) << ": "
                 << EscapeForTerminal(summary) << "\n";
    for (size_t i = 0; violations.size() > 1 && i < violations.size(); ++i) {
      streams_.err << "  " << EscapeForTerminal(violations[i].field) << ": "
                   << EscapeForTerminal(violations[i].description) << "\n";
    }
    if (details.retry_after.has_value()) {
      streams_.err << "  retry after " << absl::FormatDuration(*details.retry_after) << "\n";
    }
    const bool unavailable = absl::IsUnavailable(status);
    const bool reached = client_->Connected();
    std::string hint = ConnectionHint(status, TargetFromFlags(line_.command));
    if (hint.empty() && (unavailable || absl::IsDeadlineExceeded(status)) && !reached) {
      hint = ReachHint();
    }
    if (!hint.empty()) {
      streams_.err << "  " << EscapeForTerminal(hint) << "\n";
    }
    return unavailable || (absl::IsDeadlineExceeded(status) && !reached) ? kUnreachable : kRefused;
  }

  std::string ReachHint() const {
    const std::string target = TargetFromFlags(line_.command);
    return client_->proxy().has_value()
               ? absl::StrCat("does the proxy reach ", target,
                              "? Name its host in no_proxy to go there directly")
               : absl::StrCat("is canopy_server running at ", target, "?");
  }

  const CommandLine line_;
  const Streams& streams_;
  const std::unique_ptr<Client> client_;
  const Palette palette_;
};

absl::Status CheckChoice(absl::string_view flag, const std::string& value,
                         std::initializer_list<absl::string_view> choices) {
  for (const absl::string_view choice : choices) {
    if (value == choice) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, ": '", value, "' is not one of ", absl::StrJoin(choices, "|")));
}

ExitCode PrintFingerprint(const CommandLine& line, const Streams& streams) {
  const absl::StatusOr<std::string> fingerprint =
      line.files.empty() ? absl::InvalidArgumentError("the FOLDER of a checkpoint is needed")
                         : FolderFingerprint(line.files[0]);
  if (!fingerprint.ok()) {
    streams.err << "canopy: " << EscapeForTerminal(fingerprint.status().message()) << "\n";
    return kUsage;
  }
  const bool as_json = absl::GetFlag(FLAGS_format) == "json";
  streams.out << (as_json ? absl::StrCat("{\"fingerprint\":\"", *fingerprint, "\"}") : *fingerprint)
              << "\n"
              << std::flush;
  return streams.out ? kOk : kUsage;
}

ExitCode UsageError(const absl::Status& status, const std::string& command, std::ostream& err) {
  err << "canopy: " << EscapeForTerminal(status.message()) << "\nTry: canopy " << command
      << (command.empty() ? "" : " ") << "--help\n";
  return kUsage;
}

}  // namespace

ExitCode RunCli(absl::Span<const std::string> arguments, const Streams& streams) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(arguments);
  if (!line.ok()) {
    return UsageError(line.status(), "", streams.err);
  }
  if (line->help) {
    streams.out << HelpText(line->command) << std::flush;
    return streams.out ? kOk : kUsage;
  }
  const std::string command = line->command;
  absl::Status status = CheckChoice("format", absl::GetFlag(FLAGS_format), {"table", "json"});
  if (status.ok()) {
    status = CheckChoice("color", absl::GetFlag(FLAGS_color), {"auto", "always", "never"});
  }
  if (!status.ok()) {
    return UsageError(status, command, streams.err);
  }
  if (command == "fingerprint") {
    return PrintFingerprint(*line, streams);
  }
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Create(OptionsFromFlags(command));
  if (!client.ok()) {
    return UsageError(client.status(), command, streams.err);
  }
  return Session(*std::move(line), streams, *std::move(client)).Run();
}

}  // namespace canopy::client
