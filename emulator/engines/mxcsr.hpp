// Scope guards: denormals are zero on input and flushed on output (x86 MXCSR DAZ and FTZ) until the end of the scope.
//
// What they are not: rounding controls: rounding to nearest even and masked exceptions are set too, because the
// caller's thread may have changed them, and the caller's state comes back at the end.
#pragma once
#include <xmmintrin.h>

namespace jal::emu {

class MxcsrScope {
 public:
  MxcsrScope(const MxcsrScope&) = delete;
  MxcsrScope& operator=(const MxcsrScope&) = delete;

 protected:
  static constexpr unsigned kUsual = 0x1f80u;  ///< all exceptions masked, round to nearest
  static constexpr unsigned kFlushResults = 0x8000u;
  static constexpr unsigned kDenormalsAreZero = 0x0040u;
  explicit MxcsrScope(unsigned state) : saved_(_mm_getcsr()) { _mm_setcsr(state); }
  ~MxcsrScope() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
};

class FlushScope : MxcsrScope {
 public:
  FlushScope() : MxcsrScope(kUsual | kFlushResults | kDenormalsAreZero) {}
};

/// Denormals are flushed on output only, for code that multiplies with some.
class FlushResultsScope : MxcsrScope {
 public:
  FlushResultsScope() : MxcsrScope(kUsual | kFlushResults) {}
};

}  // namespace jal::emu
