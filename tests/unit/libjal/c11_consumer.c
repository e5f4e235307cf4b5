/* A consumer in C11: everything of the C face that a first program uses, compiled as an application would compile it.
 */
#include <jal/jal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                             \
  do {                                                                                               \
    if (!(condition)) {                                                                              \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, jal_last_error_message()); \
      return 1;                                                                                      \
    }                                                                                                \
  } while (0)
#define CHECK_OK(call) CHECK((call) == JAL_OK)

int main(void) {
  char dir[] = "/tmp/jal-c11-XXXXXX";
  CHECK(mkdtemp(dir) != NULL);
  CHECK(setenv("JAL_RUNTIME_DIR", dir, 1) == 0);

  const jal_init_options init = {.struct_size = sizeof init, .device_count = 1, .model = "jal-test4"};
  CHECK_OK(jal_init(&init));
  jal_device_t device = NULL;
  CHECK_OK(jal_device_get(0, &device));
  jal_device_info info = {.struct_size = sizeof info};
  CHECK_OK(jal_device_get_info(device, &info));
  CHECK(info.slices == 4);

  const jal_memory_options wanted = {.struct_size = sizeof wanted, .slice_mask = 1u << 2, .bytes_per_slice = 4096};
  jal_memory_t memory = NULL;
  CHECK_OK(jal_memory_alloc(device, &wanted, &memory));
  jal_memory_info where = {.struct_size = sizeof where};
  CHECK_OK(jal_memory_get_info(memory, &where));
  CHECK(where.address == JAL_ADDRESS_HBM(2, where.offset));

  jal_stream_t stream = NULL;
  jal_event_t event = NULL;
  CHECK_OK(jal_stream_create(device, NULL, &stream));
  CHECK_OK(jal_event_create(device, &event));
  uint32_t sent[64], back[64] = {0};
  for (uint32_t i = 0; i < 64; ++i) sent[i] = i * i;
  CHECK_OK(jal_copy_to_device(stream, where.address, sent, sizeof sent));
  CHECK_OK(jal_copy_to_host(stream, back, where.address, sizeof back));
  CHECK_OK(jal_event_record(event, stream));
  CHECK_OK(jal_event_synchronize(event, jal_clock_deadline(20000000000u)));
  CHECK(memcmp(sent, back, sizeof sent) == 0);

  const uint64_t dims[2] = {8, 8};
  jal_tensor_info tensor;
  CHECK_OK(jal_tensor_info_init(&tensor, JAL_DTYPE_F32, 2, dims));
  CHECK_OK(jal_tensor_shard(&tensor, 0, info.slice_mask, JAL_TENSOR_BLOCKED));
  CHECK(tensor.bytes_per_slice == 2 * 8 * 4);

  CHECK(jal_stream_query((jal_stream_t)(uintptr_t)1) == JAL_ERROR_INVALID_HANDLE);
  CHECK(strcmp(jal_status_name(jal_last_error_status()), "INVALID_HANDLE") == 0);
  CHECK_OK(jal_event_destroy(event));
  CHECK_OK(jal_stream_destroy(stream));
  CHECK_OK(jal_memory_free(memory));
  CHECK(jal_memory_free(memory) == JAL_ERROR_STALE_HANDLE);
  CHECK_OK(jal_shutdown());
  CHECK(remove(dir) == 0);
  return 0;
}
