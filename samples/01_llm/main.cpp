// jal-llm: a language model answers through libjal, firmware and the chip.
//
// stdout carries the answer (streamed) or, with --json, exactly one document; everything else goes to stderr.
// Exit codes: 0 answered, 1 failed (the message says what to do), 2 usage, 130 interrupted (what was generated is
// printed and reported).
#include <signal.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <jal/jal.hpp>
#include <thread>

#include "samples/01_llm/cache.hpp"
#include "samples/01_llm/chat.hpp"
#include "samples/01_llm/device_model.hpp"
#include "samples/01_llm/known_models.hpp"
#include "samples/01_llm/report.hpp"
#include "samples/01_llm/tokenizer.hpp"

namespace {

using namespace jal::llm;
using Clock = std::chrono::steady_clock;

volatile sig_atomic_t g_interrupted = 0;
void on_interrupt(int) { g_interrupted = 1; }

double seconds(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }

struct Options {
  std::string model;
  std::string prompt = "What is the capital of France?";
  std::string system;
  std::string weights = "bf16";
  std::string ops;
  std::string perplexity;
  std::string logits_out;
  std::vector<std::uint32_t> raw_ids;
  std::uint32_t max_tokens = 256;
  std::uint32_t context = 8192;
  Sampling sampling;
  bool json = false;
  bool chat = false;
  bool ignore_eos = false;
};

/// The shipped kernels lie beside the program: ../lib/jal/ops in a build tree and in an installed prefix.
std::string find_ops(const std::string& given) {
  if (!given.empty()) return given;
  const std::filesystem::path bin = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const char* lib : {"lib", "lib64", "lib/x86_64-linux-gnu"}) {
    const std::filesystem::path path = bin.parent_path() / lib / "jal/ops/ops_llama.jko";
    if (std::filesystem::exists(path)) return path.string();
  }
  throw std::runtime_error(
      "ops_llama.jko is not in ../lib/jal/ops beside this program; build target jal_ops, install the SDK, or pass "
      "--ops");
}

void say(const std::string& line) { std::fprintf(stderr, "jal-llm: %s\n", line.c_str()); }

/// Everything of the model that the host keeps.
struct Model {
  explicit Model(const Options& options)
      : file(GgufFile::open(options.model)),
        hash(verify_known_model(options.model, file.bytes(), nullptr)),
        config(read_model_config(file)),
        tensors(read_model_tensors(file, config)),
        tokenizer(file) {
    parse_weight_format(options.weights, &format);
    const std::string folder = cache_folder();
    weights.emplace(load_weights(tensors, format, hash, std::max(1u, std::thread::hardware_concurrency()),
                                 folder.empty() ? "" : folder + "/weights", say));
  }
  GgufFile file;
  Sha256 hash;
  ModelConfig config;
  ModelTensors tensors;
  Tokenizer tokenizer;
  WeightFormat format = WeightFormat::bf16;
  std::optional<Weights> weights;
};

/// Feeds `prompt` and generates until the end token, the limit or an interrupt. Prints text as it comes unless `quiet`.
void answer(const jal::Device& chip, DeviceModel& device, const Tokenizer& tokenizer, const Options& options,
            Clock::time_point start, Run* run) {
  StreamDecoder decoder(tokenizer);
  const auto emit = [&](const std::string& text) {
    run->text += text;
    if (options.json || text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  run->before = chip.telemetry();
  const auto prefill_begin = Clock::now();
  TokenId token = device.prefill(run->prompt_ids, options.sampling);
  run->prefill_s = seconds(prefill_begin);
  run->first_token_s = seconds(start);
  run->prefilled = chip.telemetry();
  const auto decode_begin = Clock::now();
  run->stop = "length";
  for (;;) {
    run->ids.push_back(token);
    if (token == tokenizer.eos() && !options.ignore_eos) {
      run->stop = "eos";
      break;
    }
    emit(decoder.push(token));
    if (g_interrupted != 0) {
      run->stop = "interrupt";
      break;
    }
    if (run->ids.size() >= options.max_tokens || device.position() >= device.context()) break;
    token = device.decode(token, options.sampling);
  }
  run->decode_s = seconds(decode_begin);
  run->after = chip.telemetry();
  emit(decoder.finish());
}

int run_answer(const Options& options, Model& model, const jal::Device& chip, DeviceModel& device,
               Clock::time_point start) {
  const ChatTemplate chat(model.file);
  std::vector<ChatTurn> turns;
  if (!options.system.empty()) turns.push_back({ChatRole::system, options.system});
  turns.push_back({ChatRole::user, options.prompt});
  Run run;
  run.model = model.config.name;
  run.weights = options.weights;
  run.prompt = options.prompt;
  run.prompt_ids = model.tokenizer.encode_parts(chat.render(turns));
  answer(chip, device, model.tokenizer, options, start, &run);
  const std::vector<Figure> figures = figures_of(run);
  if (options.json) {
    const std::string document = to_json(run, figures);
    std::fwrite(document.data(), 1, document.size(), stdout);
  } else {
    std::fputs("\n", stdout);
    std::fflush(stdout);
    const jal_device_info info = chip.info();
    const std::string text =
        to_text(figures, device.operation(), fmt::format("{} cores of {}", info.cores, info.model));
    std::fputs(text.c_str(), stderr);
  }
  return run.stop == "interrupt" ? 130 : 0;
}

/// Turns from stdin, a line each, until its end.
int run_chat(const Options& options, Model& model, const jal::Device& chip, DeviceModel& device,
             Clock::time_point start) {
  const ChatTemplate chat(model.file);
  bool is_first = true;
  bool answer_ended = true;
  std::string line;
  const bool is_terminal = isatty(STDIN_FILENO) != 0;
  for (;;) {
    if (is_terminal) std::fputs("> ", stderr);
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    g_interrupted = 0;
    std::vector<PromptPart> parts;
    if (is_first) {
      std::vector<ChatTurn> turns;
      if (!options.system.empty()) turns.push_back({ChatRole::system, options.system});
      turns.push_back({ChatRole::user, line});
      parts = chat.render(turns);
    } else {
      parts = chat.render_next(line, answer_ended);
    }
    Run run;
    run.prompt_ids = model.tokenizer.encode_parts(parts);
    answer(chip, device, model.tokenizer, options, is_first ? start : Clock::now(), &run);
    // The last token was chosen and not fed; the end token opens the next turn, so it must be in the cache.
    answer_ended = run.stop == "eos";
    if (device.position() < device.context()) (void)device.decode(run.ids.back(), options.sampling);
    std::fputs("\n", stdout);
    std::fflush(stdout);
    is_first = false;
  }
  return 0;
}

/// Perplexity of a text file, teacher-forced from its first token on, on stdout.
int run_perplexity(const Options& options, Model& model, DeviceModel& device) {
  std::ifstream in(options.perplexity, std::ios::binary);
  if (!in) throw std::runtime_error(options.perplexity + ": the file cannot be read");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::vector<TokenId> ids = model.tokenizer.encode(text);
  if (ids.size() < 2) throw std::runtime_error(options.perplexity + ": a perplexity needs at least two tokens");
  const std::vector<float> logits = device.logits(ids);
  double total = 0;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const float* row = &logits[i * model.config.vocab];
    double largest = row[0];
    for (std::uint32_t v = 1; v < model.config.vocab; ++v) largest = std::max<double>(largest, row[v]);
    double sum = 0;
    for (std::uint32_t v = 0; v < model.config.vocab; ++v) sum += std::exp(row[v] - largest);
    total += largest + std::log(sum) - row[ids[i + 1]];
  }
  fmt::print("{{\"tokens\": {}, \"weights\": \"{}\", \"perplexity\": {:.6f}}}\n", ids.size(), options.weights,
             std::exp(total / static_cast<double>(ids.size() - 1)));
  return 0;
}

/// Logits of given token ids as raw FP32 [ids][vocab], for comparison with a reference.
int run_logits(const Options& options, DeviceModel& device) {
  const std::vector<TokenId> ids(options.raw_ids.begin(), options.raw_ids.end());
  const std::vector<float> logits = device.logits(ids);
  std::ofstream out(options.logits_out, std::ios::binary);
  out.write(reinterpret_cast<const char*>(logits.data()), static_cast<std::streamsize>(logits.size() * sizeof(float)));
  if (!out.flush()) throw std::runtime_error(options.logits_out + ": the file cannot be written");
  return 0;
}

int run(const Options& options, Clock::time_point start) {
  Model model(options);
  const jal::Library library;
  const jal::Device chip(0);
  DeviceModel device(chip, find_ops(options.ops), model.config, model.weights->views(), options.context);
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESETHAND;  // a second Ctrl-C ends the process
  sigaction(SIGINT, &action, nullptr);
  if (!options.perplexity.empty()) return run_perplexity(options, model, device);
  if (!options.logits_out.empty()) return run_logits(options, device);
  if (options.chat) return run_chat(options, model, chip, device, start);
  return run_answer(options, model, chip, device, start);
}

}  // namespace

int main(int argc, char** argv) {
  const auto start = Clock::now();
  Options options;
  CLI::App app{
      "A language model answers through libjal, firmware and the emulated Jalapeño chip.\n"
      "Results are computed; time and energy of the chip are modelled and say so."};
  app.add_option("--model", options.model, "GGUF file of a Llama-architecture model")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--prompt", options.prompt, "what to ask")->capture_default_str();
  app.add_option("--system", options.system, "system message; default: the template's own");
  app.add_option("--weights", options.weights, "format of the linear layers; embedding and head stay bf16")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "mxfp8", "mxfp4"}));
  app.add_option("--max-tokens", options.max_tokens, "stop after so many tokens")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1u << 20));
  app.add_option("--context", options.context, "tokens the KV cache holds, up to the model's own context")
      ->capture_default_str()
      ->check(CLI::Range(32u, 1u << 20));
  app.add_option("--temperature", options.sampling.temperature, "0: the most likely token; above: sample")
      ->capture_default_str()
      ->check(CLI::Range(0.0f, 100.0f));
  app.add_option("--top-p", options.sampling.top_p, "sample from the most likely tokens that reach this share")
      ->capture_default_str()
      ->check(CLI::Range(1e-6f, 1.0f));
  app.add_option("--top-k", options.sampling.top_k, "sample from so many tokens at most")
      ->capture_default_str()
      ->check(CLI::Range(1u, JAL_LLAMA_TOP_K_MAX));
  app.add_option("--seed", options.sampling.seed, "of sampling")->capture_default_str();
  app.add_flag("--chat", options.chat, "converse: one turn a line of standard input");
  app.add_flag("--json", options.json, "print one JSON document (schema jal.demo/1) instead of the answer");
  app.add_flag("--ignore-eos", options.ignore_eos, "go on after the end token, for measurements");
  app.add_option("--perplexity", options.perplexity, "print the perplexity of a text file instead of answering");
  app.add_option("--logits-out", options.logits_out, "write the logits of --ids as raw FP32 instead of answering");
  app.add_option("--ids", options.raw_ids, "token ids for --logits-out, separated by commas")->delimiter(',');
  app.add_option("--ops", options.ops, "the kernels' module; default: beside this program");
  app.set_version_flag("--version", std::string("jal-llm ") + jal_version());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help goes to stdout, complaints to stderr.
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return run(options, start);
  } catch (const std::exception& error) {
    say(error.what());
    return 1;
  }
}
