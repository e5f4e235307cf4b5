// What every verb does first and last: mark the emulator's own code for signal handlers, charge the issue, leave when
// the job is over.
#pragma once
#include <algorithm>
#include <cstdint>

#include "emulator/cores/tiles.hpp"

namespace jal::emu {

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
    for (std::uint32_t i = 0; i < after.count; ++i) start = std::max(start, after.ev[i].time_ps);
    return start;
  }
  /// The engine is busy from start for `occupied`; the result is there `latency` after that.
  jal_ev finish(Engine engine, std::uint32_t unit, std::uint64_t start, std::uint64_t occupied, std::uint64_t latency) {
    core.free_ps[engine] = start + occupied;
    core.busy_ps[unit] += occupied;
    const std::uint64_t end = start + occupied + latency;
    core.end_ps = std::max(core.end_ps, end);
    return {end, ++core.sequence, engine + 1u};
  }

  CoreState& core;
};

}  // namespace jal::emu
