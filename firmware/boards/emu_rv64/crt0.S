// Start of the management core: stack, .bss, trap vector, then jal_main. Machine mode, interrupts disabled.
  .option arch, +zicsr
  .section .start, "ax"
  .globl jal_start
jal_start:
  csrw mie, zero
  csrci mstatus, 8            // MIE: nothing interrupts the firmware
  la t0, trap
  csrw mtvec, t0
  .option push
  .option norelax
  la gp, __global_pointer$
  .option pop
  la sp, jal_stack_top
  la t0, jal_bss_begin
  la t1, jal_bss_end
  bgeu t0, t1, 2f
1:
  sd zero, 0(t0)
  addi t0, t0, 8
  bltu t0, t1, 1b
2:
  li t0, 0x800                // MEIE: a doorbell wakes wfi although it does not interrupt
  csrw mie, t0
  call jal_main

  .balign 4
trap:
  // The firmware neither traps on purpose nor takes interrupts: report and stop, on a stack that is known to be good.
  la sp, jal_stack_top
  csrr a0, mcause
  csrr a1, mepc
  csrr a2, mtval
  j jal_trap
