// What every verb does first and last: mark the emulator's own code for signal handlers, charge the issue, leave when
// the job is over.
#pragma once
#include <algorithm>
#include <cstdint>

#include "emulator/cores/tiles.hpp"

namespace jal::emu {

/// The ticket of the core's next operation.
inline jal_ev ticket(CoreState& core, std::uint64_t end_ps, std::uint32_t engine) {
  const std::uint64_t time_ps = end_ps - core.start_ps;
  if (time_ps > JAL_EV_TIME_MAX) [[unlikely]]
    time_fault(core, time_ps);
  return jal_ev_make(time_ps, engine, ++core.sequence);
}

class VerbScope {
 public:
  VerbScope(jal_core* raw, const jal_site* site) : core(state_of(raw)) {
    core.is_in_verb = true;
    core.site = site;
    core.now_ps += core.verb_issue_ps;
    ++core.verbs_issued;
    if (core.job->is_stopping()) core.job->leave(core);
  }
  ~VerbScope() { core.is_in_verb = false; }
  VerbScope(const VerbScope&) = delete;
  VerbScope& operator=(const VerbScope&) = delete;

  /// Earliest start on an engine: issued, `after` complete, engine free.
  std::uint64_t start_ps(Engine engine, jal_after after) const {
    std::uint64_t start = std::max(core.now_ps, core.free_ps[engine]);
    for (std::uint64_t i = 0; i < after.count; ++i)
      start = std::max(start, core.start_ps + jal_ev_time_ps(after.ev[i]));
    return start;
  }
  /// The engine is busy from start for `occupied`; the result is there `latency` after that.
  jal_ev finish(Engine engine, std::uint32_t unit, std::uint64_t start, std::uint64_t occupied, std::uint64_t latency) {
    core.free_ps[engine] = start + occupied;
    core.busy_ps[unit] += occupied;
    const std::uint64_t end = start + occupied + latency;
    core.end_ps = std::max(core.end_ps, end);
    return ticket(core, end, engine + 1u);
  }

  CoreState& core;
};

}  // namespace jal::emu
