// Scope guard: denormals are zero on input and flushed on output (x86 MXCSR DAZ and FTZ) until the end of the scope.
//
// What it is not: a rounding control: rounding to nearest even and masked exceptions are set too, because the caller's
// thread may have changed them, and the caller's state comes back at the end.
#pragma once
#include <xmmintrin.h>

namespace jal::emu {

class FlushScope {
 public:
  FlushScope() : saved_(_mm_getcsr()) { _mm_setcsr(kFlush); }
  ~FlushScope() { _mm_setcsr(saved_); }
  FlushScope(const FlushScope&) = delete;
  FlushScope& operator=(const FlushScope&) = delete;

 private:
  static constexpr unsigned kFlush = 0x1f80u | 0x8000u | 0x0040u;  // all masked, FTZ, DAZ, round to nearest
  unsigned saved_;
};

}  // namespace jal::emu
