/* First steps in C: open the chip, place two vectors over its HBM slices, run a kernel on all cores, read back.
 * Run: hello_c [axpy.jko] */
#include <jal/jal.h>
#include <stdio.h>
#include <stdlib.h>

/* A call that fails says what went wrong and what to do; a first program prints that and ends. */
static void check(jal_status_t status) {
  if (status == JAL_OK) return;
  fprintf(stderr, "%s: %s\n", jal_status_name(status), jal_last_error_message());
  exit(1);
}

static uint64_t soon(void) {
  return jal_clock_deadline(60000000000u); /* every wait has a deadline, here 60 s from now */
}

#define COUNT 1000

int main(int argc, char** argv) {
  check(jal_init(NULL));
  jal_device_t device;
  check(jal_device_get(0, &device));
  jal_device_info info = {.struct_size = sizeof info};
  check(jal_device_get_info(device, &info));
  printf("%s: %u cores, %u HBM slices\n", info.model, (unsigned)info.cores, (unsigned)info.slices);

  /* A descriptor says what a tensor is and where it lies: COUNT floats, dealt out over all slices. */
  jal_tensor_info x, y;
  const uint64_t dims[] = {COUNT};
  check(jal_tensor_info_init(&x, JAL_DTYPE_F32, 1, dims));
  check(jal_tensor_shard(&x, 0, info.slice_mask, JAL_TENSOR_BLOCKED));
  y = x;

  /* Memory comes in equal parts at one offset of every slice in a mask. */
  jal_memory_options options = {.struct_size = sizeof options};
  options.slice_mask = x.slice_mask;
  options.bytes_per_slice = x.bytes_per_slice;
  jal_memory_info where = {.struct_size = sizeof where};
  jal_memory_t x_memory, y_memory;
  check(jal_memory_alloc(device, &options, &x_memory));
  check(jal_memory_get_info(x_memory, &where));
  x.offset = where.offset;
  check(jal_memory_alloc(device, &options, &y_memory));
  check(jal_memory_get_info(y_memory, &where));
  y.offset = where.offset;

  float values[COUNT];
  for (int i = 0; i < COUNT; ++i) values[i] = (float)i;
  jal_tensor_host host = {.struct_size = sizeof host};
  host.dtype = JAL_DTYPE_F32;
  host.data = values;
  check(jal_tensor_upload(device, &x, &host, soon()));
  check(jal_tensor_upload(device, &y, &host, soon()));

  jal_module_t module;
  jal_kernel_t axpy;
  check(jal_module_load(device, argc > 1 ? argv[1] : "axpy.jko", &module));
  check(jal_module_kernel(module, "axpy", &axpy));

  /* Work goes to a stream and runs in order; events around it tell when it ran in the chip's own (modelled) time. */
  jal_stream_t stream;
  jal_event_t before, after;
  check(jal_stream_create(device, NULL, &stream));
  check(jal_event_create(device, &before));
  check(jal_event_create(device, &after));
  jal_argument arguments[3] = {{0}};
  arguments[0].type = JAL_ARGUMENT_TENSOR;
  arguments[0].value.tensor = &x;
  arguments[1].type = JAL_ARGUMENT_TENSOR;
  arguments[1].value.tensor = &y;
  arguments[2].type = JAL_ARGUMENT_F32;
  arguments[2].value.f32 = 2.0f;
  check(jal_event_record(before, stream));
  check(jal_launch(stream, axpy, info.core_mask, arguments, 3, NULL));
  check(jal_event_record(after, stream));
  check(jal_stream_synchronize(stream, soon()));

  int64_t elapsed_ps;
  uint32_t clock_kind;
  check(jal_event_elapsed_ps(before, after, &elapsed_ps, &clock_kind));
  printf("axpy took %.3f us on the chip's %s clock\n", (double)elapsed_ps / 1e6, jal_clock_kind_name(clock_kind));

  check(jal_tensor_download(device, &y, &host, soon()));
  int wrong = 0;
  for (int i = 0; i < COUNT; ++i) wrong += values[i] != 3.0f * (float)i;
  printf("y[1] = %g, y[999] = %g, %d wrong\n", (double)values[1], (double)values[999], wrong);
  check(jal_shutdown()); /* what was not destroyed goes with it */
  return wrong != 0;
}
