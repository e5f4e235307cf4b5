// Start, end, clocks, text and fidelity: what belongs to the library as a whole. Contracts: jal/init.h, clock.h,
// text.h, fidelity.h.
#include <jal/clock.h>
#include <jal/fidelity.h>
#include <jal/init.h>
#include <jal/text.h>

#include "libjal/call.hpp"

#ifndef JAL_VERSION_TEXT
  #error "the build defines JAL_VERSION_TEXT"
#endif

using namespace jal::face;  // NOLINT: this file is nothing but its C face

jal_status_t jal_init(const jal_init_options* options) noexcept {
  return guarded([&]() -> Status {
    if (options == nullptr) return jal::rt::Library::init(nullptr);
    JAL_RETURN_IF_ERROR(check_struct(options, "jal_init_options"));
    JAL_RETURN_IF_ERROR(check_reserved(options->reserved, "jal_init_options"));
    jal::rt::InitOptions wanted;
    wanted.device_count = options->device_count;
    if (options->model != nullptr) wanted.model = options->model;
    if (options->trace_path != nullptr) wanted.trace_path = options->trace_path;
    wanted.worker_threads = options->worker_threads;
    wanted.sanitize = options->sanitize;
    wanted.host_budget_bytes = options->host_budget_bytes;
    wanted.kernel_deadline_ns = options->kernel_deadline_ns;
    return jal::rt::Library::init(&wanted);
  });
}

jal_status_t jal_shutdown(void) noexcept {
  return guarded([] { return jal::rt::Library::shutdown(); });
}

const char* jal_version(void) noexcept { return JAL_VERSION_TEXT; }

jal_status_t jal_telemetry_path(const char** out_path) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_path, "out_path"));
    auto library = jal::rt::Library::get();
    if (!library.ok()) return library.status();
    *out_path = (*library)->instance().telemetry_path();
    return {};
  });
}

uint64_t jal_clock_now_ns(void) noexcept { return jal::drv::now_ns(); }

uint64_t jal_clock_deadline(uint64_t timeout_ns) noexcept {
  const std::uint64_t now = jal::drv::now_ns();
  return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

jal_status_t jal_clock_device_ps(jal_device_t device, uint64_t* out_ps, uint32_t* out_clock_kind) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_ps, "out_ps"));
    const auto answer = object.session().ask(JAL_MAILBOX_CLOCK_QUERY, {});
    if (!answer.ok()) return answer.status();
    if (answer->status != JAL_OK) return refused(*answer, "asking device {} for its time", object.index());
    *out_ps = answer->word[0];
    if (out_clock_kind != nullptr) *out_clock_kind = object.chip().clock_kind;
    return {};
  });
}

jal_status_t jal_text_set_sink(jal_text_sink sink, void* user) noexcept {
  return guarded([&]() -> Status {
    auto library = jal::rt::Library::get();
    if (!library.ok()) return library.status();
    if (sink == nullptr) {
      (*library)->set_text_sink({});
    } else {
      (*library)->set_text_sink([sink, user](std::uint32_t device, std::uint32_t core, const char* text,
                                             std::uint64_t bytes) { sink(user, device, core, text, bytes); });
    }
    return {};
  });
}

jal_status_t jal_fidelity_at(uint32_t index, const char** out_feature, const char** out_level,
                             const char** out_text) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_feature, "out_feature"));
    JAL_RETURN_IF_ERROR(check_pointer(out_level, "out_level"));
    JAL_RETURN_IF_ERROR(check_pointer(out_text, "out_text"));
    auto library = jal::rt::Library::get();
    if (!library.ok()) return library.status();
    const auto& instance = (*library)->instance();
    const char* const* table = instance.api().fidelity(instance.handle());
    std::uint32_t rows = 0;
    for (const char* const* row = table; *row != nullptr; row += 3, ++rows) {
      if (rows != index) continue;
      *out_feature = row[0];
      *out_level = row[1];
      *out_text = row[2];
      return {};
    }
    return fail(JAL_ERROR_INVALID_ARGUMENT, "row {} of the fidelity table: it has {}", index, rows);
  });
}

jal_status_t jal_model_value(const char* name, double* out_value, const char** out_unit,
                             const char** out_source) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(name, "name"));
    JAL_RETURN_IF_ERROR(check_pointer(out_value, "out_value"));
    auto library = jal::rt::Library::get();
    if (!library.ok()) return library.status();
    const auto& instance = (*library)->instance();
    const char *unit = "", *source = "";
    double value = 0;
    const jal_status_t status = instance.api().model_value(instance.handle(), name, &value, &unit, &source);
    if (status != JAL_OK) return fail(status, "the chip's model file has no figure {}", name);
    *out_value = value;
    if (out_unit != nullptr) *out_unit = unit;
    if (out_source != nullptr) *out_source = source;
    return {};
  });
}
