// Fibers. See fiber.hpp.
#include "emulator/cores/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
  #include <sanitizer/asan_interface.h>
  #include <sanitizer/common_interface_defs.h>
  #define JAL_FIBER_ASAN 1
#else
  #define JAL_FIBER_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
  #include <sanitizer/tsan_interface.h>
  #define JAL_FIBER_TSAN 1
#else
  #define JAL_FIBER_TSAN 0
#endif

namespace jal::emu {
namespace {

std::byte* map_memory(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

constexpr std::size_t kGuardBytes = 4096;

}  // namespace

Fiber::Fiber(std::size_t stack_bytes, std::size_t l1_bytes)
    : stack_bytes_(stack_bytes),
      l1_bytes_(l1_bytes),
      stack_map_(map_memory(stack_bytes + kGuardBytes)),
      l1_(map_memory(l1_bytes)) {
  // A kernel that overruns its stack faults here instead of writing to a neighbour.
  if (mprotect(stack_map_, kGuardBytes, PROT_NONE) != 0) std::abort();
  stack_ = stack_map_ + kGuardBytes;
#if JAL_FIBER_TSAN
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if JAL_FIBER_TSAN
  __tsan_destroy_fiber(tsan_fiber_);
#endif
#if JAL_FIBER_ASAN
  // Whatever is mapped here next must not inherit the frames that a suspended fiber left poisoned.
  ASAN_UNPOISON_MEMORY_REGION(stack_, stack_bytes_);
#endif
  munmap(stack_map_, stack_bytes_ + kGuardBytes);
  munmap(l1_, l1_bytes_);
}

void Fiber::scrub_l1() {
  if (madvise(l1_, l1_bytes_, MADV_DONTNEED) != 0) std::abort();
}

void Fiber::prepare(Entry entry, void* argument) {
  entry_ = entry;
  argument_ = argument;
#if JAL_FIBER_ASAN
  // A fiber that was abandoned left its frames poisoned.
  ASAN_UNPOISON_MEMORY_REGION(stack_, stack_bytes_);
  fake_stack_ = nullptr;
#endif
  own_ = boost::context::detail::make_fcontext(stack_ + stack_bytes_, stack_bytes_, &Fiber::start);
}

void Fiber::start(boost::context::detail::transfer_t from) {
  auto* fiber = static_cast<Fiber*>(from.data);
  fiber->caller_ = from.fctx;
#if JAL_FIBER_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &fiber->caller_stack_, &fiber->caller_stack_bytes_);
#endif
  fiber->entry_(fiber->argument_);
  fiber->abandon();
}

void Fiber::resume() {
#if JAL_FIBER_ASAN
  __sanitizer_start_switch_fiber(&caller_fake_stack_, stack_, stack_bytes_);
#endif
#if JAL_FIBER_TSAN
  tsan_caller_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
  const boost::context::detail::transfer_t back = boost::context::detail::jump_fcontext(own_, this);
#if JAL_FIBER_ASAN
  __sanitizer_finish_switch_fiber(caller_fake_stack_, nullptr, nullptr);
#endif
  own_ = back.fctx;
}

void Fiber::suspend() {
#if JAL_FIBER_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
#if JAL_FIBER_TSAN
  __tsan_switch_to_fiber(tsan_caller_, 0);
#endif
  const boost::context::detail::transfer_t from = boost::context::detail::jump_fcontext(caller_, nullptr);
  caller_ = from.fctx;
#if JAL_FIBER_ASAN
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

void Fiber::abandon() {
#if JAL_FIBER_ASAN
  __sanitizer_start_switch_fiber(nullptr, caller_stack_, caller_stack_bytes_);
#endif
#if JAL_FIBER_TSAN
  __tsan_switch_to_fiber(tsan_caller_, 0);
#endif
  (void)boost::context::detail::jump_fcontext(caller_, nullptr);
  std::abort();  // nobody resumes an abandoned fiber without prepare()
}

}  // namespace jal::emu
